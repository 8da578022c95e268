"""The page that compares the three backends: the benchmark writes its figures, and its chart is complete."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # benchmarks are not installed; appended, so that an installed mqplug comes first

from benchmarks._three_report import results_as_chart, results_as_table, write_table_into  # noqa: E402
from benchmarks._three_workload import BackendResult, Throughput, Turn, Workload  # noqa: E402

DOCS = ROOT / "docs"
PAGE, CHART = DOCS / "three-backends.md", DOCS / "three-backends.svg"
BACKENDS = ["RocksMQ", "Kafka", "Pulsar"]
WORKLOADS = [Workload(size, partitions) for size in (128, 1024, 100 * 1024) for partitions in (1, 8)]


def texts(svg):
    """Return all words of a chart."""
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def results():
    """Return results of which each backend is twice as fast as the next, with latencies of 1 to 100 ms."""
    return [
        BackendResult(
            backend,
            workload,
            [Turn(Throughput(8000 >> row, 1, 1), Throughput(16000 >> row, 1, 1), [n / 1e3 for n in range(1, 101)])],
        )
        for workload in WORKLOADS
        for row, backend in enumerate(BACKENDS)
    ]


def test_table_has_a_row_for_each_backend_and_workload(results):
    """A row has messages and megabytes a second, microseconds of CPU, and the percentiles in milliseconds."""
    head, _, *rows = results_as_table(results).splitlines()
    assert len(rows) == len(WORKLOADS) * len(BACKENDS)
    assert {row.count("|") for row in (head, *rows)} == {12}
    assert rows[4] == (
        "| 128 B, 8 partitions | Kafka | 4,000 | 0.5 | 250.0 | 8,000 | 1.0 | 125.0 | 50.00 | 95.00 | 99.00 |"
    )


def test_chart_labels_every_value(results):
    """A chart has a title, a legend, the number of each bar, and colours for light and for dark pages."""
    svg = results_as_chart(results, "2026-01-01, 2 processors. More.").svg()
    found = texts(svg)
    assert found[:2] == ["The same workload on three backends, through mqplug", "2026-01-01, 2 processors"]
    assert found[2:5] == BACKENDS
    assert [found.count(label) for label in ("8k", "16k", "2k", "50", "99")] == [12, 6, 6, 18, 18]
    assert "prefers-color-scheme: dark" in svg


def test_table_is_written_between_the_marks(results, tmp_path):
    """Writing the table again replaces it, and keeps the rest of the page."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    write_table_into(page, "first run", results_as_table(results))
    once = page.read_text()
    write_table_into(page, "second run", results_as_table(results))
    assert page.read_text() == once.replace("first run", "second run")
    page.write_text("no marks")
    with pytest.raises(ValueError, match="has no place for the table"):
        write_table_into(page, "run", "table")


def test_page_and_chart_are_of_one_run():
    """The page has a row for each backend and workload, and the chart shows the same run."""
    page = PAGE.read_text()
    rows = re.findall(r"^\| ([^|]+) \| (RocksMQ|Kafka|Pulsar) \|", page, re.MULTILINE)
    assert rows == [(workload.name, backend) for workload in WORKLOADS for backend in BACKENDS]
    assert texts(CHART.read_text())[1] in page
