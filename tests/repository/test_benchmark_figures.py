"""The figures of the benchmarks: taken suite by suite, stored as a summary, and shown on a page of the docs."""

from __future__ import annotations

import json
import re
import sys
from contextlib import nullcontext
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT), str(ROOT / "docs")]  # appended, so that an installed mqplug comes first

import benchmark_figures  # noqa: E402

from benchmarks._all import run_all, suites_of_all  # noqa: E402
from benchmarks._contests import Contest, Side, TimedMessages, measure  # noqa: E402
from benchmarks._figures import (  # noqa: E402
    FOLDER,
    contests_as_figures,
    findings_as_figures,
    three_as_figures,
    write_figures,
)
from benchmarks._findings import BenchmarkFinding  # noqa: E402
from benchmarks._suites import SUITES, Suite  # noqa: E402
from benchmarks._three_workload import BackendResult, Throughput, Turn, Workload  # noqa: E402

TITLE = SUITES["rocksmq_sends"].title


def side(name: str) -> Side:
    """Return a side that does nothing."""
    return Side(name, f"what {name} does", lambda: nullcontext(lambda: 1))


def contest(name: str, least: float) -> Contest:
    """Return a contest of two equal sides, with an aim for the ratio of their speeds."""
    return Contest(name=name, ours=side("mqplug"), rivals=[side("sqlite")], min_speed_ratios={"sqlite": least})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with figures of sends, of which one aim is met and one missed, and of a large store."""
    results = measure([contest("easy | one", 0.0), contest("hard", 1e9)], 2, lambda _: None)
    write_figures(
        tmp_path, SUITES["rocksmq_sends"], contests_as_figures(results, [contest("left out", 1)]), quick=False
    )
    findings = [BenchmarkFinding("memory", 300.0, "MiB", 256), BenchmarkFinding("disk", 5.25, "GiB")]
    write_figures(tmp_path, SUITES["rocksmq_large"], findings_as_figures(findings), quick=True)
    return tmp_path


def section(page: str, title: str) -> str:
    """Return the text below a heading of the page."""
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_page_shows_each_side_and_ratio(folder: Path):
    """A contest has a row for each side, with our words, the rival's, both ratios, and what the rival does not have."""
    found = section("\n" + "\n".join(benchmark_figures.sections(folder)), TITLE)
    ours, rival, *_ = (line.split(" | ") for line in found.splitlines() if " does |" in line)
    assert ours[:2] == ["| **easy \\| one**, per message", "mqplug: what mqplug does"]
    assert rival[1] == "sqlite: what sqlite does"
    assert all(float(cell.replace(",", "")) > 0 for cell in rival[4:6])
    assert f"| sqlite | {SUITES['rocksmq_sends'].rivals['sqlite']} |" in found
    assert "rounds of each contest: 2. " in found
    assert "Not run: left out." in found


def test_page_shows_missed_aims(folder: Path):
    """A missed aim is counted in the overview, listed with what was measured, and marked in its row."""
    page = "\n" + "\n".join(benchmark_figures.sections(folder))
    assert re.search(r"^\| Single sends to RocksMQ \| \d{4}-\d\d-\d\d \| 1 \| \*\*1\*\* \|$", page, re.MULTILINE)
    missed = section(page, "Missed aims").strip().splitlines()
    assert [line.partition(", measured ")[0] for line in missed] == [
        "* Single sends to RocksMQ, hard: at least 1000000000.00 of the speed of sqlite",
        "* A large RocksMQ store, memory: at most 256 MiB",
    ]
    assert section(page, TITLE).count("**missed**") == 1
    assert "| memory | 300.0 MiB | at most 256 MiB: **missed** |" in page
    assert "**A trial with few messages, not for comparison**" in section(page, "A large RocksMQ store")


def test_page_shows_latencies(tmp_path: Path):
    """Sides whose messages are timed one by one have percentiles, in contests and with the three backends."""
    ours, rival = (
        Side(name, "words", lambda: nullcontext(lambda: TimedMessages([0.25] * 10))) for name in ("mqplug", "sqlite")
    )
    results = measure([Contest(name="timed", ours=ours, rivals=[rival])], 1, lambda _: None)
    write_figures(tmp_path, SUITES["rocksmq_sends"], contests_as_figures(results, []), quick=False)
    turn = Turn(Throughput(8000, 2.0, 1.0), Throughput(16000, 2.0, 1.0), [0.25])
    three = three_as_figures([BackendResult("RocksMQ", Workload(128, 1), [turn])])
    write_figures(tmp_path, attrs.evolve(SUITES["three"], brokers=()), three, quick=False)
    page = "\n".join(benchmark_figures.sections(tmp_path))
    assert page.count("words; p50 250,000, p99 250,000 |") == 2
    assert "| 128 B, 1 partition | RocksMQ | 4,000 | 125 | 8,000 | 62.5 | 250 | 250 |" in page


def test_page_says_what_was_not_taken(tmp_path: Path):
    """Without any figures, each suite has a section, which says that they were not taken."""
    page = "\n".join(benchmark_figures.sections(tmp_path))
    assert page.count("These figures were not taken.") == len(SUITES)
    assert "Nothing was measured." in page


def test_page_shows_the_stored_figures():
    """The page has each stored suite, none of which was only a trial, and nothing about where it was measured."""
    page = "\n" + "\n".join(benchmark_figures.sections())
    stored = sorted(FOLDER.glob("*.json"))
    assert page.count("These figures were not taken.") == len(SUITES) - len(stored)
    for file in stored:
        text = file.read_text()
        figures = json.loads(text)
        assert (figures["suite"], figures["quick"]) == (file.stem, False)
        assert len(text.splitlines()) < 1000
        assert re.findall(r"/(?:tmp|home|root|work)\b|\d+\.\d+\.\d+\.\d+", text) == []
        for each in figures.get("contests", ()):
            assert each["name"].replace("|", "\\|") in section(page, SUITES[file.stem].title)


def test_all_continues_after_a_suite_that_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Suites run after one that fails, which is reported; each gets its part of the time that is left."""
    suites = [Suite(name=name, title=name, compares="", minutes=1) for name in ("good", "bad", "last")]
    parts = {}

    def command_of(suite: Suite, minutes: float) -> list[str]:
        parts[suite.name] = minutes
        program = f"import pathlib; pathlib.Path({str(tmp_path / suite.name)!r}).touch()"
        return [sys.executable, "-c", f"{program}; raise SystemExit({3 * (suite.name == 'bad')})"]

    assert run_all(suites, 3e6, command_of) == {"bad": "failed with exit code 3"}
    assert {file.name for file in tmp_path.iterdir()} == {"good", "bad", "last"}
    assert parts["good"] == pytest.approx(1e6)
    assert parts["last"] == pytest.approx(3e6, rel=1e-3)
    assert "bad: failed with exit code 3" in capfd.readouterr().out


def test_all_stops_a_suite_that_hangs():
    """A suite that takes far too long is stopped, and counts as failed."""
    suite = Suite(name="hangs", title="hangs", compares="", minutes=1)
    hangs = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    assert run_all([suite], 1, lambda *_: hangs, hangs_after_s=0.5) == {"hangs": "stopped after 0.5 s"}


def test_all_leaves_out_what_takes_long():
    """Without ``--quick``, the suites that need much disk or many minutes are left out."""
    brief, usual = ([suite.name for suite in suites_of_all(quick=quick)] for quick in (True, False))
    assert {"rocksmq_large", "kafka_memory", "pulsar_partitions"} <= set(brief) - set(usual)
    assert {"core", "rocksmq_batches", "kafka", "pulsar", "spark", "three"} <= set(usual)


def test_time_limit_leaves_one_round():
    """Where no time is left, each contest has one round; without a limit, all of them."""
    contests = [contest("first", 1), contest("second", 1)]
    assert [len(each.samples["mqplug"]) for each in measure(contests, 3, lambda _: None, end=0.0)] == [1, 1]
    assert [len(each.samples["mqplug"]) for each in measure(contests, 3, lambda _: None)] == [3, 3]
