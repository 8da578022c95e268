"""Paired measurements: the sides of a contest take turns, so that a busy machine is as busy for each of them."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import attrs


@attrs.frozen
class Timed:
    """What work answers that times each message by itself: seconds, from when it was sent to when it was there.

    ``paced`` says that it paused between them: then the whole says nothing, and half of what they took is taken for it.
    """

    latencies: Sequence[float]
    paced: bool = False

    def percentiles(self) -> dict[str, float]:
        """How many microseconds half of them took at most, 99 in 100, and 999 in 1000."""
        ordered = sorted(self.latencies)
        at = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
        return {name: ordered[int(part * (len(ordered) - 1))] * 1e6 for name, part in at.items()}


Work = Callable[[], int | Timed]
"""What is timed. It answers how many messages it handled, or how long each took."""

Prepare = Callable[[], AbstractContextManager[Work]]


@attrs.frozen
class Side:
    """One of those compared. ``prepare`` makes the work ready; what it does before and after is not timed."""

    name: str
    words: str
    prepare: Prepare


@attrs.frozen(kw_only=True)
class Contest:
    """Ours against one or more rivals that do the same work.

    ``most_added`` is how many microseconds ours may take more than the first rival for each message; ``aims`` how fast
    it has to be, as a share of the speed of the rivals that it names; ``most_median`` how many microseconds half of
    the messages may take, where work times each.
    """

    name: str
    ours: Side
    rivals: Sequence[Side]
    unit: str = "message"
    most_added: float | None = None
    aims: Mapping[str, float] = attrs.field(factory=dict)
    most_median: float | None = None

    @property
    def sides(self) -> list[Side]:
        """All that take part."""
        return [self.ours, *self.rivals]


@attrs.frozen
class Sample:
    """One turn of one side: microseconds for each message, and their percentiles where work times each."""

    wall: float
    cpu: float
    percentiles: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen
class Result:
    """The samples of each side, in rounds."""

    contest: Contest
    samples: dict[str, list[Sample]]

    def speed_ratio(self, rival: Side) -> float:
        """Our speed as a share of the rival's: the median of the rounds."""
        return statistics.median(other.wall / our.wall for our, other in self._paired(rival))

    def processor_ratio(self, rival: Side) -> float:
        """The same by processor time, which moves less where others use the machine."""
        return statistics.median([other.cpu / our.cpu for our, other in self._paired(rival) if our.cpu] or [0.0])

    def best_ratio(self, rival: Side) -> float:
        """The same for the best turn of each: what the least disturbed turns say."""
        ours, others = self.samples[self.contest.ours.name], self.samples[rival.name]
        return min(each.wall for each in others) / min(each.wall for each in ours)

    def added(self, rival: Side) -> tuple[float, float]:
        """How many microseconds of processor time ours takes more: the median of the rounds, and best against best."""
        ours, others = self.samples[self.contest.ours.name], self.samples[rival.name]
        median = statistics.median(our.cpu - other.cpu for our, other in self._paired(rival))
        return median, min(each.cpu for each in ours) - min(each.cpu for each in others)

    def percentiles(self, side: Side) -> dict[str, float]:
        """Those of a side, each the median of the rounds; none where its work does not time each message."""
        rounds = [each.percentiles for each in self.samples[side.name]]
        return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}

    def _paired(self, rival: Side) -> list[tuple[Sample, Sample]]:
        return list(zip(self.samples[self.contest.ours.name], self.samples[rival.name], strict=True))


def measure(contests: Sequence[Contest], rounds: int, report: Callable[[Result], None]) -> list[Result]:
    """Run each contest for so many rounds; who begins changes with every round. One round before is not counted."""
    results = []
    for contest in contests:
        samples: dict[str, list[Sample]] = {side.name: [] for side in contest.sides}
        for number in range(-1, rounds):
            for side in contest.sides if number % 2 else reversed(contest.sides):
                sample = _take(side)
                if number >= 0:
                    samples[side.name].append(sample)
        results.append(Result(contest, samples))
        report(results[-1])
    return results


def _take(side: Side) -> Sample:
    with side.prepare() as work:
        gc.collect()
        wall, cpu = time.perf_counter(), _processor_time()
        handled = work()
        wall, cpu = time.perf_counter() - wall, _processor_time() - cpu
    return _sample(side, handled, wall * 1e6, cpu * 1e6)


def _sample(side: Side, handled: int | Timed, wall: float, cpu: float) -> Sample:
    messages = len(handled.latencies) if isinstance(handled, Timed) else handled
    if not messages:
        raise ValueError(f"{side.name} handled no message: nothing was measured")
    if not isinstance(handled, Timed):
        return Sample(wall / messages, cpu / messages)
    percentiles = handled.percentiles()
    return Sample(percentiles["p50"] if handled.paced else wall / messages, cpu / messages, percentiles)


def _processor_time() -> float:
    """Seconds of processor time, of all threads, and of children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
