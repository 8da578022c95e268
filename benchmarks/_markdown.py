"""Results as a page of tables, with when and where they were measured."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata

from benchmarks._findings import Finding
from benchmarks._paired import Result, Side
from benchmarks._report import judged

_HEAD = "| contest | ours, k/s | p50 / p99 µs | beside | k/s | p50 / p99 µs | of its speed | by CPU | aim |"
_PACKAGES = ("mqplug", "mqplug-rocksmq", "rocksdict", "pyarrow", "persist-queue", "litequeue", "diskcache")


def contests_as_markdown(suite: str, results: Sequence[Result], rounds: int) -> str:
    """A line for each rival of each contest."""
    rows = [_row(result, rival) for result in results for rival in result.contest.rivals]
    rule = "|".join(["---"] * (_HEAD.count("|") - 1))
    return "\n".join([*_where(suite, f"{rounds} rounds"), _HEAD, f"|{rule}|", *rows, ""])


def findings_as_markdown(suite: str, findings: Sequence[Finding]) -> str:
    """A line for each number."""
    rows = [f"| {each.name} | {each.value:,.2f} {each.unit} | {each.verdict} |" for each in findings]
    return "\n".join([*_where(suite, "once"), "| what | | limit |", "|---|---|---|", *rows, ""])


def _where(suite: str, how_often: str) -> Iterator[str]:
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


def _row(result: Result, rival: Side) -> str:
    ours = result.contest.ours
    aims = ", ".join("reached" if aim.reached else "NOT reached" for aim in judged(result) if aim.rival == rival.name)
    cells = [
        result.contest.name,
        *_speed(result, ours),
        rival.name,
        *_speed(result, rival),
        f"{result.speed_ratio(rival):.2f}",
        f"{result.processor_ratio(rival):.2f}",
        aims,
    ]
    return f"| {' | '.join(cells)} |"


def _speed(result: Result, side: Side) -> tuple[str, str]:
    wall = statistics.median(each.wall for each in result.samples[side.name])
    percentiles = result.percentiles(side)
    latencies = f"{percentiles['p50']:,.0f} / {percentiles['p99']:,.0f}" if percentiles else ""
    return f"{1e3 / wall:,.1f}", latencies
