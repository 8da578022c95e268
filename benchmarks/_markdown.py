"""Results as a Markdown page of tables, with the time, the machine and the versions."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata

from benchmarks._contests import ContestResult, Side
from benchmarks._findings import BenchmarkFinding
from benchmarks._report import judge_aims

_CONTEST_HEAD = "| contest | ours, k/s | p50 / p99 µs | rival | k/s | p50 / p99 µs | of its speed | by CPU | aim |"
_PACKAGES = (
    "mqplug",
    "mqplug-rocksmq",
    "mqplug-kafka",
    "mqplug-pulsar",
    "mqplug-spark",
    "pyspark",
    "confluent-kafka",
    "pulsar-client",
    "rocksdict",
    "pyarrow",
    "persist-queue",
    "litequeue",
    "diskcache",
)


def contests_as_markdown(suite: str, results: Sequence[ContestResult], rounds: int) -> str:
    """Return a page with a row for each rival of each contest."""
    rows = [_row(result, rival) for result in results for rival in result.contest.rivals]
    rule = "|".join(["---"] * (_CONTEST_HEAD.count("|") - 1))
    return "\n".join([*_heading(suite, f"{rounds} rounds"), _CONTEST_HEAD, f"|{rule}|", *rows, ""])


def findings_as_markdown(suite: str, findings: Sequence[BenchmarkFinding]) -> str:
    """Return a page with a row for each finding."""
    rows = [f"| {each.name} | {each.value:,.2f} {each.unit} | {each.verdict} |" for each in findings]
    return "\n".join([*_heading(suite, "once"), "| finding | | limit |", "|---|---|---|", *rows, ""])


def _heading(suite: str, how_often: str) -> Iterator[str]:
    now, load = datetime.now(UTC), os.getloadavg()[0]
    system = f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} processors"
    yield f"# `python -m benchmarks {suite}`\n"
    yield f"{now:%Y-%m-%d %H:%M} UTC, {how_often}. {system}, load {load:.1f} at the end."
    yield f"Python {platform.python_version()}, {', '.join(_versions())}.\n"


def _versions() -> Iterator[str]:
    for package in _PACKAGES:
        try:
            yield f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            yield f"{package} not installed"


def _row(result: ContestResult, rival: Side) -> str:
    ours = result.contest.ours
    aims = [aim for aim in judge_aims(result) if aim.rival == rival.name]
    cells = [
        result.contest.name,
        *_speed(result, ours),
        rival.name,
        *_speed(result, rival),
        f"{result.speed_ratio(rival):.2f}",
        f"{result.processor_ratio(rival):.2f}",
        ", ".join("reached" if aim.reached else "NOT reached" for aim in aims),
    ]
    return f"| {' | '.join(cells)} |"


def _speed(result: ContestResult, side: Side) -> tuple[str, str]:
    wall = statistics.median(each.wall for each in result.samples[side.name])
    percentiles = result.percentiles(side)
    latencies = f"{percentiles['p50']:,.0f} / {percentiles['p99']:,.0f}" if percentiles else ""
    return f"{1e3 / wall:,.1f}", latencies
