"""What a seek of a group would do: from where to where, and how many messages come again or are passed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from mqplug_cli._queries.counting import MOST_READ, some_messages
from mqplug_cli._queries.group_positions import positions

if TYPE_CHECKING:
    import mqplug

Missing = Literal["error", "next"]


class Move(NamedTuple):
    """The move of a group in one partition.

    ``again`` messages that the group has acked come again, ``passed`` messages that it has not acked are passed over:
    None where it has no position yet.
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
    """Yield what a seek would do to each partition. Nothing is moved."""
    for topic in topics:
        marks = mq.watermarks(topic, timeout=timeout)
        stored = positions(mq, group, topic, timeout)
        for partition, target in sorted(mq.resolve(topic, to, missing=missing, timeout=timeout).items()):
            at = stored.get(partition)
            if at is None:
                yield Move(topic, partition, None, target, None, None, exact=True)
            elif mq.capabilities.advance:
                yield _computed(mq, at, target, marks[partition])
            else:
                move = _read(mq, at, target, marks[partition], timeout)
                lag = 0 if move.exact else mq.lag(topic, group=group, timeout=timeout)[partition]
                yield move if move.exact else _at_least_estimated(move, marks[partition], lag)


def summary(planned: Sequence[Move]) -> str:
    """Return in words how many messages come again and how many are passed over."""
    about = "" if all(each.exact for each in planned) else "about "
    again, passed = (sum(getattr(each, name) or 0 for each in planned) for name in ("again", "passed"))
    return f"{about}{again:,} messages come again, and {passed:,} are passed over"


def _computed(mq: mqplug.Client, at: mqplug.GroupPosition, target: mqplug.Position, marks: mqplug.Watermarks) -> Move:
    import mqplug

    log = target.log

    def count(start: mqplug.Position, until: mqplug.Position) -> int:
        return mq.distance(max(start, marks.low), min(until, marks.high))

    acked = [(mqplug.Position(log, first), mq.advance(mqplug.Position(log, last), 1)) for first, last in at.acked]
    again = count(target, at.position) + sum(count(max(first, target), end) for first, end in acked)
    passed = count(at.position, target) - sum(count(first, min(end, target)) for first, end in acked)
    return Move(log.topic, log.partition, at.position, target, again, passed, marks.exact)


def _read(
    mq: mqplug.Client, at: mqplug.GroupPosition, target: mqplug.Position, marks: mqplug.Watermarks, timeout: float
) -> Move:
    """Count by reading between the two positions, and to the end of what was acked behind them."""
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
    """Return the move of more than was read, with the backend's estimates where it leads to an end of the log."""
    again, passed = move.again or 0, move.passed or 0
    if move.until <= marks.low:
        again = max(again, marks.count - lag)
    if move.until >= marks.high:
        passed = max(passed, lag)
    return move._replace(again=again, passed=passed)
