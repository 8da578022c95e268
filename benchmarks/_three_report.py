"""The three backends side by side: as a table, as data for JSON, and as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs

from benchmarks._machine import broker_versions, installed_versions, machine_as_data
from benchmarks._suites import Suite
from benchmarks._three_workload import BackendResult
from mqplug_cli._measuring.bar_chart import Bar, Chart, Panel

TABLE_BEGIN = "<!-- The lines from here to the end mark are written by python -m benchmarks three. -->\n"
TABLE_END = "<!-- end -->\n"
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_HEAD = (
    "| messages | backend | produce: msg/s | MB/s | CPU µs | consume: msg/s | MB/s | CPU µs"
    " | latency ms: p50 | p95 | p99 |"
)


def describe_run(suite: Suite, rounds: int) -> str:
    """Return the time, the machine and the versions of a run."""
    machine = machine_as_data()
    versions = {**installed_versions(suite.packages), **broker_versions(suite.brokers)}
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {rounds} rounds, {machine['system']}, {machine['processors']}"
        f" processors, load {machine['load_at_end']} at the end."
        f" {', '.join(f'{name} {version}' for name, version in versions.items())}."
    )


def results_as_table(results: Sequence[BackendResult]) -> str:
    """Return the results as a Markdown table."""
    rule = "|".join(["---", "---", *["--:"] * (_HEAD.count("|") - 3)])
    return "\n".join([_HEAD, f"|{rule}|", *map(_row, results), ""])


def _row(result: BackendResult) -> str:
    cells = [result.workload.name, result.backend]
    steps = (result.produce_per_s, result.produce_cpu_us), (result.consume_per_s, result.consume_cpu_us)
    for per_s, cpu_us in steps:
        cells += [f"{per_s:,.0f}", f"{per_s * result.workload.size / 1e6:,.1f}", f"{cpu_us:,.1f}"]
    cells += [f"{result.latency_ms(part):,.2f}" for part in PERCENTILES.values()]
    return f"| {' | '.join(cells)} |"


def write_table_into(page: Path, run: str, table: str) -> None:
    """Replace the text between the marks of a page."""
    before, begin, rest = page.read_text().partition(TABLE_BEGIN)
    _, end, after = rest.partition(TABLE_END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for the table; add these lines to it:\n{TABLE_BEGIN}{TABLE_END}")
    page.write_text(f"{before}{begin}\n{table}\n{run}\n\n{end}{after}")


def results_as_data(results: Sequence[BackendResult]) -> list[dict[str, Any]]:
    """Return every turn and the figures of the table, for JSON."""
    return [
        {
            "backend": result.backend,
            **attrs.asdict(result.workload),
            "produce_per_s": result.produce_per_s,
            "consume_per_s": result.consume_per_s,
            "produce_cpu_us": result.produce_cpu_us,
            "consume_cpu_us": result.consume_cpu_us,
            "latency_ms": {name: result.latency_ms(part) for name, part in PERCENTILES.items()},
            "turns": list(map(attrs.asdict, result.turns)),
        }
        for result in results
    ]


def results_as_chart(results: Sequence[BackendResult], run: str) -> Chart:
    """Return a chart of the rates of producing and consuming, and of the latencies."""
    rows = [list(row) for _, row in groupby(results, key=lambda result: result.workload)]
    workloads = [row[0].workload for row in rows]
    return Chart(
        title="The same workload on three backends, through mqplug",
        hint=run.partition(". ")[0],
        series=[result.backend for result in rows[0]],
        groups=[
            (each.size_name, f"{each.partitions} partition{'s' * (each.partitions > 1)}") for each in workloads
        ],
        panels=[
            Panel("Produce, messages per second", "log scale, higher is better",
                  [[Bar(each.produce_per_s) for each in row] for row in rows]),
            Panel("Consume, messages per second", "log scale, higher is better",
                  [[Bar(each.consume_per_s) for each in row] for row in rows]),
            Panel("Latency from send to receive, milliseconds: median (bar) and 99th percentile (line)",
                  "log scale, lower is better",
                  [[Bar(each.latency_ms(0.5), each.latency_ms(0.99)) for each in row] for row in rows]),
        ],
    )  # fmt: skip
