"""Results of contests, printed and as data for JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import attrs

from benchmarks._contests import ContestResult, Side

UNITS = "Times in microseconds: median of the rounds (best round). CPU time covers all threads of the process."


def print_contest(result: ContestResult) -> None:
    """Print the result of one contest."""
    contest = result.contest
    width = max(len(side.name) for side in contest.sides)
    print(f"\n{contest.name}")
    for side in contest.sides:
        print(f"  {side.name:<{width}} {_times(result, side)}   {side.words}")
        if percentiles := result.percentiles(side):
            said = ", ".join(f"{name} {value:.1f} us" for name, value in percentiles.items())
            print(f"  {'':<{width}} each message: {said}")
    for rival in contest.rivals:
        median, best = result.added(rival)
        print(
            f"  compared with {rival.name}: {result.speed_ratio(rival):.2f} of its speed"
            f" (best {result.best_ratio(rival):.2f}), {result.processor_ratio(rival):.2f} by CPU;"
            f" {median:+.2f} us of CPU (best {best:+.2f})"
        )
    for aim in judge_aims(result):
        print(f"  aim: {aim}")


def _times(result: ContestResult, side: Side) -> str:
    samples = result.samples[side.name]
    wall, cpu = [each.wall for each in samples], [each.cpu for each in samples]
    return (
        f"wall {statistics.median(wall):9.3f} ({min(wall):9.3f})  cpu {statistics.median(cpu):9.3f} ({min(cpu):9.3f})"
        f"  us/{result.contest.unit}, {1e3 / statistics.median(wall):8.1f} k/s"
    )


@attrs.frozen
class JudgedAim:
    """An aim in words, what was measured, whether it was reached, and the rival it is measured against."""

    words: str
    measured: float
    reached: bool
    rival: str

    def __str__(self) -> str:
        return f"{self.words}: {'reached' if self.reached else 'NOT reached'}"


def judge_aims(result: ContestResult) -> list[JudgedAim]:
    """Return each aim of a contest, judged by the median of the rounds."""
    contest = result.contest
    rivals, first = {rival.name: rival for rival in contest.rivals}, contest.rivals[0]
    aims = []
    for name, least in contest.min_speed_ratios.items():
        ratio = result.speed_ratio(rivals[name])
        aims.append(JudgedAim(f"at least {least:.2f} of the speed of {name}", ratio, ratio >= least, name))
    for name, least in contest.min_cpu_ratios.items():
        ratio = result.processor_ratio(rivals[name])
        aims.append(JudgedAim(f"at least {least:.2f} of {name} by CPU", ratio, ratio >= least, name))
    if (most := contest.max_added_cpu_us) is not None:
        added, _ = result.added(first)
        aims.append(JudgedAim(f"at most {most:+.2f} us of CPU", added, added <= most, first.name))
    if (most := contest.max_p50_us) is not None:
        half = result.percentiles(contest.ours)["p50"]
        aims.append(JudgedAim(f"half of the messages within {most:.0f} us", half, half <= most, first.name))
    return aims


def contests_as_data(results: Sequence[ContestResult]) -> list[dict[str, Any]]:
    """Return every sample and ratio of each contest, for JSON."""
    return list(map(_contest_as_data, results))


def _contest_as_data(result: ContestResult) -> dict[str, Any]:
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
        "aims": list(map(str, judge_aims(result))),
    }
