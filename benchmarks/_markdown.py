"""Results as a Markdown page of tables, with the time, the machine and the versions."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from benchmarks._contests import ContestResult, Side
from benchmarks._findings import BenchmarkFinding
from benchmarks._machine import installed_versions, machine_as_data
from benchmarks._report import judge_aims
from benchmarks._suites import Suite

_CONTEST_HEAD = "| contest | ours, k/s | p50 / p99 µs | rival | k/s | p50 / p99 µs | of its speed | by CPU | aim |"


def contests_as_markdown(name: str, packages: Sequence[str], results: Sequence[ContestResult], rounds: int) -> str:
    """Return a page with a row for each rival of each contest."""
    rows = [_row(result, rival) for result in results for rival in result.contest.rivals]
    rule = "|".join(["---"] * (_CONTEST_HEAD.count("|") - 1))
    return "\n".join([*_heading(name, packages, f"{rounds} rounds"), _CONTEST_HEAD, f"|{rule}|", *rows, ""])


def findings_as_markdown(suite: Suite, findings: Sequence[BenchmarkFinding]) -> str:
    """Return a page with a row for each finding."""
    rows = [f"| {each.name} | {each.value:,.2f} {each.unit} | {each.verdict} |" for each in findings]
    return "\n".join(
        [*_heading(suite.name, suite.packages, "once"), "| finding | | limit |", "|---|---|---|", *rows, ""]
    )


def _heading(name: str, packages: Sequence[str], how_often: str) -> Iterator[str]:
    machine = machine_as_data()
    versions = (f"{package} {version}" for package, version in installed_versions(packages).items())
    yield f"# `python -m benchmarks {name}`\n"
    yield (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {how_often}. {machine['system']}, {machine['processors']} processors,"
        f" load {machine['load_at_end']} at the end."
    )
    yield f"{', '.join(versions)}.\n"


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
