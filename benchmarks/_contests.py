"""Contests: their sides, their runs and their ratios. The sides take turns, so that load slows all of them down."""

from __future__ import annotations

import gc
import math
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import attrs

from benchmarks._time_limit import rounds_of_each


@attrs.frozen
class TimedMessages:
    """The seconds that each message took, returned by work that times each message.

    ``paced`` means that the work paused between messages. Its wall time is then meaningless, and p50 is used instead.
    """

    latencies_s: Sequence[float]
    paced: bool = False

    def percentiles(self) -> dict[str, float]:
        """Return the percentiles in microseconds: p50, p99 and p99.9."""
        ordered = sorted(self.latencies_s)
        at = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
        return {name: ordered[int(part * (len(ordered) - 1))] * 1e6 for name, part in at.items()}


Work = Callable[[], int | TimedMessages]
"""The timed part of a side. It returns the number of messages handled, or the time of each."""

PrepareWork = Callable[[], AbstractContextManager[Work]]


def process_cpu_s() -> float:
    """Return the seconds of CPU time of all threads and of ended child processes."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@attrs.frozen
class Side:
    """One of the programs that a contest compares. ``prepare`` sets up and cleans up, untimed."""

    name: str
    words: str
    prepare: PrepareWork


@attrs.frozen(kw_only=True)
class Contest:
    """Our side and one or more rivals that do the same work, with up to four kinds of aims.

    ``max_added_cpu_us``: our CPU time for each message above the first rival's.
    ``min_speed_ratios``: our speed as a share of each named rival's.
    ``min_cpu_ratios``: the same by CPU time, where a broker on the same machine disturbs the wall time.
    ``max_p50_us``: the median latency, where the work times each message.

    ``cpu_time`` is the clock of CPU time, where this process's own does not see all of the work.
    """

    name: str
    ours: Side
    rivals: Sequence[Side]
    unit: str = "message"
    max_added_cpu_us: float | None = None
    min_speed_ratios: Mapping[str, float] = attrs.field(factory=dict)
    min_cpu_ratios: Mapping[str, float] = attrs.field(factory=dict)
    max_p50_us: float | None = None
    cpu_time: Callable[[], float] = process_cpu_s

    @property
    def sides(self) -> list[Side]:
        """Our side, then the rivals."""
        return [self.ours, *self.rivals]

    @property
    def judged(self) -> bool:
        """Whether it has an aim."""
        limits = self.max_added_cpu_us, self.max_p50_us
        return bool(self.min_speed_ratios or self.min_cpu_ratios) or any(each is not None for each in limits)


@attrs.frozen
class TurnSample:
    """One turn of one side: microseconds for each message, and percentiles where the work times each message."""

    wall: float
    cpu: float
    percentiles: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen
class ContestResult:
    """The samples of each side of a contest, one for each round."""

    contest: Contest
    samples: dict[str, list[TurnSample]]

    def speed_ratio(self, rival: Side) -> float:
        """Return our speed as a share of the rival's: the median of the rounds."""
        return statistics.median(other.wall / our.wall for our, other in self._paired(rival))

    def processor_ratio(self, rival: Side) -> float:
        """Return the same ratio by CPU time, which varies less on a shared machine."""
        return statistics.median([other.cpu / our.cpu for our, other in self._paired(rival) if our.cpu] or [0.0])

    def best_ratio(self, rival: Side) -> float:
        """Return the same ratio of the fastest turns, which the machine disturbed least."""
        ours, others = self.samples[self.contest.ours.name], self.samples[rival.name]
        return min(each.wall for each in others) / min(each.wall for each in ours)

    def added(self, rival: Side) -> tuple[float, float]:
        """Return our additional CPU time in microseconds: the median of the rounds, and the difference of the best."""
        ours, others = self.samples[self.contest.ours.name], self.samples[rival.name]
        median = statistics.median(our.cpu - other.cpu for our, other in self._paired(rival))
        return median, min(each.cpu for each in ours) - min(each.cpu for each in others)

    def percentiles(self, side: Side) -> dict[str, float]:
        """Return the medians of a side's percentiles over the rounds; empty if its work does not time each message."""
        rounds = [each.percentiles for each in self.samples[side.name]]
        return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}

    def _paired(self, rival: Side) -> list[tuple[TurnSample, TurnSample]]:
        return list(zip(self.samples[self.contest.ours.name], self.samples[rival.name], strict=True))


def measure(
    contests: Sequence[Contest], rounds: int, report: Callable[[ContestResult], None], end: float = math.inf
) -> list[ContestResult]:
    """Run each contest for `rounds` rounds after a warm-up. The order of the sides is reversed in every other round.

    Rounds that would end after `end`, a moment of ``time.monotonic``, are left out, except the first of each contest.
    """
    results = []
    for contest, numbers in rounds_of_each(contests, rounds, end):
        samples: dict[str, list[TurnSample]] = {side.name: [] for side in contest.sides}
        for number in numbers:
            for side in contest.sides if number % 2 else reversed(contest.sides):
                sample = _take(side, contest.cpu_time)
                if number >= 0:
                    samples[side.name].append(sample)
        results.append(ContestResult(contest, samples))
        report(results[-1])
    return results


def _take(side: Side, cpu_time: Callable[[], float]) -> TurnSample:
    with side.prepare() as work:
        gc.collect()
        wall, cpu = time.perf_counter(), cpu_time()
        handled = work()
        wall, cpu = time.perf_counter() - wall, cpu_time() - cpu
    return _sample(side, handled, wall * 1e6, cpu * 1e6)


def _sample(side: Side, handled: int | TimedMessages, wall: float, cpu: float) -> TurnSample:
    messages = len(handled.latencies_s) if isinstance(handled, TimedMessages) else handled
    if not messages:
        raise ValueError(f"side {side.name!r} handled no messages: nothing to measure")
    if not isinstance(handled, TimedMessages):
        return TurnSample(wall / messages, cpu / messages)
    percentiles = handled.percentiles()
    return TurnSample(percentiles["p50"] if handled.paced else wall / messages, cpu / messages, percentiles)
