"""Results in words and as data."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from typing import Any

import attrs

import mqplug
from benchmarks._paired import Contest, Result, Side


def describe_machine() -> str:
    """Where this was measured."""
    versions = f"mqplug {mqplug.__version__}, Python {platform.python_version()}"
    return (
        f"{versions}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n"
        "Microseconds: median of the rounds (best round). CPU is of the whole process, all threads."
    )


def show(result: Result) -> None:
    """Print one contest."""
    contest = result.contest
    print(f"\n{contest.name}")
    for side in contest.sides:
        print(f"  {side.name:<12} {_times(result, side)}   {side.words}")
    for rival in contest.rivals:
        median, best = result.added(rival)
        print(
            f"  against {rival.name}: {result.speed_ratio(rival):.2f} of its speed ({result.best_ratio(rival):.2f});"
            f" {median:+.2f} us of CPU ({best:+.2f})"
        )
    if said := _said(contest, result):
        print(f"  aim: {said}")


def _times(result: Result, side: Side) -> str:
    samples = result.samples[side.name]
    wall, cpu = [each.wall for each in samples], [each.cpu for each in samples]
    return (
        f"wall {statistics.median(wall):9.3f} ({min(wall):9.3f})  cpu {statistics.median(cpu):9.3f} ({min(cpu):9.3f})"
        f"  us/{result.contest.unit}"
    )


def _said(contest: Contest, result: Result) -> str:
    """Whether the aim is reached, by the median of the rounds."""
    rival = contest.rivals[0]
    if contest.most_added is not None:
        added, _ = result.added(rival)
        return f"at most {contest.most_added:+.2f} us: {'reached' if added <= contest.most_added else 'NOT reached'}"
    if contest.ratio is not None:
        reached = result.speed_ratio(rival) >= contest.ratio
        return f"at least {contest.ratio:.2f} of the speed of {rival.name}: {'reached' if reached else 'NOT reached'}"
    return ""


def as_data(suite: str, results: Sequence[Result]) -> dict[str, Any]:
    """Every sample, with what was compared, in words."""
    return {
        "suite": suite,
        "mqplug": mqplug.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "contests": [_contest(result) for result in results],
    }


def _contest(result: Result) -> dict[str, Any]:
    contest = result.contest
    return {
        "name": contest.name,
        "unit": f"microseconds per {contest.unit}",
        "sides": [
            {"name": side.name, "words": side.words, "rounds": list(map(attrs.asdict, result.samples[side.name]))}
            for side in contest.sides
        ],
        "speed_ratios": {rival.name: round(result.speed_ratio(rival), 4) for rival in contest.rivals},
        "best_ratios": {rival.name: round(result.best_ratio(rival), 4) for rival in contest.rivals},
        "aim": _said(contest, result),
    }
