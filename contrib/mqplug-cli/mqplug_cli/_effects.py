"""Previews of a seek, a trim or a shorter retention: how many messages it would affect.

The number of messages between two positions is computed if the backend can do that. Otherwise some are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeGuard

import mqplug

MOST_READ: Final = 10_000
Missing = Literal["error", "next"]


class Count(NamedTuple):
    """A number of messages, exact or estimated."""

    messages: int
    exact: bool

    def __str__(self) -> str:
        return f"{'' if self.exact else 'about '}{self.messages:,} message{'' if self.messages == 1 else 's'}"


def total(counts: Iterable[Count]) -> Count:
    """Return the sum of counts."""
    every = list(counts)
    return Count(sum(each.messages for each in every), all(each.exact for each in every))


def stored(mq: mqplug.Client, topic: str, timeout: float) -> Count:
    """Return the number of messages that a topic retains."""
    return total(Count(each.count, each.exact) for each in mq.watermarks(topic, timeout=timeout).values())


def between(
    mq: mqplug.Client, start: mqplug.Position, until: mqplug.Position, marks: mqplug.Watermarks, timeout: float
) -> Count:
    """Return the number of messages between two positions of a partition that has these watermarks."""
    start, until = max(start, marks.low), min(until, marks.high)
    if start >= until:
        return Count(0, exact=True)
    if (start, until) == (marks.low, marks.high):
        return Count(marks.count, marks.exact)
    if mq.capabilities.advance:
        return Count(mq.distance(start, until), marks.exact)
    with some_messages(mq, start, min(until, marks.readable), timeout) as messages:
        read = sum(1 for _ in messages)
    return Count(min(read, MOST_READ), exact=read <= MOST_READ)


@contextmanager
def some_messages(
    mq: mqplug.Client, start: mqplug.Position, until: mqplug.Position, timeout: float
) -> Iterator[Iterator[mqplug.Message]]:
    """Yield the messages between two positions of one partition, at most ``MOST_READ + 1``."""
    log = start.log
    found = mq.read(log.topic, start=start, until=until, partitions=[log.partition], missing="next", timeout=timeout)
    with closing(found):  # type: ignore[type-var]  # a generator
        yield islice(found, MOST_READ + 1)


def positions(mq: mqplug.Client, group: str, topic: str, timeout: float) -> dict[int, mqplug.GroupPosition]:
    """Return the group's position in each partition that has one; none if it only has members there."""
    try:
        return mq.positions(topic, group=group, timeout=timeout)
    except mqplug.GroupNotFound:
        return {}


class Move(NamedTuple):
    """The move of a group in one partition.

    ``again`` counts the acked messages that come again, ``passed`` the unacked messages that are passed over. Both are
    None if the group has no position yet.
    """

    topic: str
    partition: int
    start: mqplug.Position | None
    until: mqplug.Position
    again: int | None
    passed: int | None
    exact: bool


def topics_to_seek(group: mqplug.GroupDescription, to: mqplug.Start) -> tuple[str, ...]:
    """Return the topic of an id or a position; for other places, all topics of the group."""
    log = getattr(to, "log", None) or getattr(getattr(to, "id", None), "log", None)
    return group.topics if log is None else (log.topic,)


def moves(
    mq: mqplug.Client, group: str, to: mqplug.Start, topics: Sequence[str], missing: Missing, timeout: float
) -> Iterator[Move]:
    """Yield the move that a seek would make in each partition, without making it."""
    for topic in topics:
        marks = mq.watermarks(topic, timeout=timeout)
        held = positions(mq, group, topic, timeout)
        for partition, target in sorted(mq.resolve(topic, to, missing=missing, timeout=timeout).items()):
            at = held.get(partition)
            if at is None:
                yield Move(topic, partition, None, target, None, None, exact=True)
            elif mq.capabilities.advance:
                yield _computed(mq, at, target, marks[partition])
            else:
                move = _counted(mq, at, target, marks[partition], timeout)
                lag = 0 if move.exact else mq.lag(topic, group=group, timeout=timeout)[partition]
                yield move if move.exact else _at_least_estimated(move, marks[partition], lag)


def summary(planned: Sequence[Move]) -> str:
    """Return in words how many messages come again and how many are passed over."""
    about = "" if all(each.exact for each in planned) else "about "
    again, passed = (sum(getattr(each, name) or 0 for each in planned) for name in ("again", "passed"))
    return f"{about}{again:,} messages come again, and {passed:,} are passed over"


def _computed(mq: mqplug.Client, at: mqplug.GroupPosition, target: mqplug.Position, marks: mqplug.Watermarks) -> Move:
    log = target.log

    def count(start: mqplug.Position, until: mqplug.Position) -> int:
        return mq.distance(max(start, marks.low), min(until, marks.high))

    acked = [(mqplug.Position(log, first), mq.advance(mqplug.Position(log, last), 1)) for first, last in at.acked]
    again = count(target, at.position) + sum(count(max(first, target), end) for first, end in acked)
    passed = count(at.position, target) - sum(count(first, min(end, target)) for first, end in acked)
    return Move(log.topic, log.partition, at.position, target, again, passed, marks.exact)


def _counted(
    mq: mqplug.Client, at: mqplug.GroupPosition, target: mqplug.Position, marks: mqplug.Watermarks, timeout: float
) -> Move:
    """Count by reading between the two positions, and to the last acked message after them."""
    log = target.log
    last_acked = at.acked[-1][1] if at.acked else ()
    start, until = min(at.position, target), max(at.position, target)
    end = marks.readable if at.acked else min(until, marks.readable)
    again = passed = read = 0
    with some_messages(mq, max(start, marks.low), end, timeout) as messages:
        for message in messages:
            read += 1
            coordinates = message.id.coordinates
            if coordinates >= until.coordinates and coordinates > last_acked:
                break
            done = coordinates < at.position.coordinates or any(a <= coordinates <= z for a, z in at.acked)
            again += done and coordinates >= target.coordinates
            passed += not done and coordinates < target.coordinates
    return Move(log.topic, log.partition, at.position, target, again, passed, exact=read <= MOST_READ)


def _at_least_estimated(move: Move, marks: mqplug.Watermarks, lag: int) -> Move:
    """Return a move too long to read, with the backend's estimates if it leads to an end of the log."""
    again, passed = move.again or 0, move.passed or 0
    if move.until <= marks.low:
        again = max(again, marks.count - lag)
    if move.until >= marks.high:
        passed = max(passed, lag)
    return move._replace(again=again, passed=passed)


class Removal(NamedTuple):
    """The messages of one partition from the first retained one up to a position."""

    partition: int
    start: mqplug.Position
    until: mqplug.Position
    messages: Count


def removals(
    mq: mqplug.Client, topic: str, before: mqplug.Start, partitions: Sequence[int] | None, timeout: float
) -> list[Removal]:
    """Return what a trim would remove from each partition, or from these, without removing it."""
    wanted = mq.resolve(topic, before, partitions=partitions or None, missing="next", timeout=timeout)
    marks = mq.watermarks(topic, timeout=timeout)
    return [
        Removal(each, marks[each].low, at, between(mq, marks[each].low, at, marks[each], timeout))
        for each, at in sorted(wanted.items())
    ]


def loss(mq: mqplug.Client, topic: str, settings: Mapping[str, Any], timeout: float) -> str | None:
    """Return in words what new settings of a topic would remove, or None if it keeps as much as now.

    A limit that the backend does not report may be a longer one. The backend's own options are not considered.
    """
    info = mq.describe(topic, timeout=timeout)
    seconds, size = _seconds(settings.get("retention")), settings.get("retention_bytes")
    if _shorter(size, info.retention_bytes):
        return f"some of {stored(mq, topic, timeout)}"
    return str(_older(mq, topic, seconds, timeout)) if _shorter(seconds, info.retention) else None


def _older(mq: mqplug.Client, topic: str, seconds: float, timeout: float) -> Count:
    """Return how many messages are older than this."""
    marks = mq.watermarks(topic, timeout=timeout)
    kept = mq.resolve(topic, mqplug.ago(seconds=seconds), timeout=timeout)
    return total(between(mq, marks[each].low, at, marks[each], timeout) for each, at in kept.items())


def _seconds(retention: timedelta | float | None) -> float | None:
    return retention.total_seconds() if isinstance(retention, timedelta) else retention


def _shorter(new: float | None, present: float | None) -> TypeGuard[float]:
    if new is None or math.isinf(new):
        return False
    return present is None or new < present
