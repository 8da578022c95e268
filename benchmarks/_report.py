"""Results in words and as data."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from typing import Any

import attrs

import mqplug
from benchmarks._paired import Result, Side


def describe_machine() -> str:
    """Where this was measured."""
    versions = f"mqplug {mqplug.__version__}, Python {platform.python_version()}"
    return f"{versions}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"


UNITS = "Microseconds: median of the rounds (best round). CPU is of the whole process, all threads."


def show(result: Result) -> None:
    """Print one contest."""
    contest = result.contest
    width = max(len(side.name) for side in contest.sides)
    print(f"\n{contest.name}")
    for side in contest.sides:
        print(f"  {side.name:<{width}} {_times(result, side)}   {side.words}")
        if percentiles := result.percentiles(side):
            said = ", ".join(f"{name} {value:.1f} us" for name, value in percentiles.items())
            print(f"  {'':<{width}} each took {said}")
    for rival in contest.rivals:
        median, best = result.added(rival)
        print(
            f"  against {rival.name}: {result.speed_ratio(rival):.2f} of its speed ({result.best_ratio(rival):.2f});"
            f" {median:+.2f} us of CPU ({best:+.2f}), {result.processor_ratio(rival):.2f} by CPU"
        )
    for aim in judged(result):
        print(f"  aim: {aim}")


def _times(result: Result, side: Side) -> str:
    samples = result.samples[side.name]
    wall, cpu = [each.wall for each in samples], [each.cpu for each in samples]
    return (
        f"wall {statistics.median(wall):9.3f} ({min(wall):9.3f})  cpu {statistics.median(cpu):9.3f} ({min(cpu):9.3f})"
        f"  us/{result.contest.unit}, {1e3 / statistics.median(wall):8.1f} k/s"
    )


@attrs.frozen
class Judged:
    """An aim in words, whether it is reached, and whom it is measured by."""

    words: str
    reached: bool
    rival: str

    def __str__(self) -> str:
        return f"{self.words}: {'reached' if self.reached else 'NOT reached'}"


def judged(result: Result) -> list[Judged]:
    """Each aim of a contest, by the median of the rounds."""
    contest = result.contest
    rivals, first = {rival.name: rival for rival in contest.rivals}, contest.rivals[0]
    aims = [
        Judged(f"at least {least:.2f} of the speed of {name}", result.speed_ratio(rivals[name]) >= least, name)
        for name, least in contest.aims.items()
    ]
    if (most := contest.most_added) is not None:
        aims.append(Judged(f"at most {most:+.2f} us", result.added(first)[0] <= most, first.name))
    if (most := contest.most_median) is not None:
        half = result.percentiles(contest.ours)["p50"]
        aims.append(Judged(f"half of them within {most:.0f} us", half <= most, first.name))
    return aims


def machine() -> dict[str, str]:
    """Where this was measured, as data."""
    return {
        "mqplug": mqplug.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
    }


def contests_as_data(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Every sample, with what was compared, in words."""
    return list(map(_contest, results))


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
        "processor_ratios": {rival.name: round(result.processor_ratio(rival), 4) for rival in contest.rivals},
        "aims": list(map(str, judged(result))),
    }
