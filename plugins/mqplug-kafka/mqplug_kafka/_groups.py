"""Groups: their stored positions, with the acks of single messages in the commit's metadata."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from mqplug import ConsumerBusy, GroupNotFound, Log, Position
from mqplug.spi import ConsumerOptions, GroupPosition, GroupStart
from mqplug_kafka._connection import KafkaConnection
from mqplug_kafka._errors import translate
from mqplug_kafka._offsets import resolve

ROOM = 4096  # bytes of metadata that a broker takes by default: offset.metadata.max.bytes
MARK = "mqplug1:"
_RUNS = re.compile(rf"{MARK}(\d+\+\d+(?:,\d+\+\d+)*)", re.ASCII)

Ranges = Sequence[tuple[Sequence[int], Sequence[int]]]


def pack(offset: int, acked: Ranges) -> str:
    """Acked ranges as text: ``3+5`` skips 3 offsets, then 5 are acked. The nearest come first, as many as fit."""
    text, separator = "", MARK
    for (first, *_), (last, *_) in acked:
        run = f"{separator}{first - offset}+{last - first + 1}"
        if len(text) + len(run) > ROOM:
            break
        text, separator, offset = text + run, ",", last + 1
    return text


def unpack(offset: int, metadata: str | None) -> tuple[tuple[tuple[int], tuple[int]], ...]:
    """The acked ranges; none where another program wrote the metadata."""
    found = _RUNS.fullmatch(metadata or "")
    ranges = []
    for run in found[1].split(",") if found else ():
        skip, length = map(int, run.split("+"))
        first, offset = offset + skip, offset + skip + length
        ranges.append(((first,), (offset - 1,)))
    return tuple(ranges)


def as_native(positions: Mapping[Log, GroupPosition]) -> list[TopicPartition]:
    """Positions as the native client commits them."""
    return [
        TopicPartition(log.topic, log.partition, to.position.coordinates[0], pack(to.position.coordinates[0], to.acked))
        for log, to in positions.items()
    ]


def stored(connection: KafkaConnection, group: str, logs: Iterable[Log], timeout: float) -> dict[Log, GroupPosition]:
    """Where the group stands, for those logs where it has a position."""
    names = {(log.topic, log.partition): log for log in logs}
    wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(*name) for name in names])]
    answer = connection.patient.ask(
        f"group {group!r}",
        lambda left: connection.admin.list_consumer_group_offsets(wanted, request_timeout=left)[group],
        timeout,
        _raise_first,
    )
    found = {}
    for each in answer.topic_partitions or ():
        if each.offset >= 0:
            log = names[each.topic, each.partition]
            found[log] = GroupPosition(Position(log, (each.offset,)), unpack(each.offset, each.metadata))
    return found


def move(connection: KafkaConnection, group: str, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
    """Store positions of a group without members; ``ConsumerBusy`` if it has any."""
    wanted = [ConsumerGroupTopicPartitions(group, as_native(positions))]
    connection.patient.ask(
        f"group {group!r}",
        lambda left: connection.admin.alter_consumer_group_offsets(wanted, request_timeout=left)[group],
        timeout,
        _raise_first,
    )


def _raise_first(answer: ConsumerGroupTopicPartitions) -> None:
    """A group's answer has an error for each partition."""
    for each in answer.topic_partitions or ():
        if each.error is not None:
            busy = each.error.code() in {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP}
            group = f"group {answer.group_id!r}{' has members' if busy else ''}"
            raise translate(each.error, group, ConsumerBusy if busy else None)


def begin(connection: KafkaConnection, group: str, options: ConsumerOptions, timeout: float) -> dict[Log, Position]:
    """Store the start of each log where the group has no position.

    Kafka lets nobody do that while the group has members. They have positions, as a rule; where they have not,
    the positions are returned instead, and the member stores them when it is given the log.
    """
    end = time.monotonic() + timeout
    known = stored(connection, group, options.logs, timeout)
    if options.must_exist and not known:
        raise GroupNotFound(f"the group {group!r} has no position here", fix="Drop must_exist=True")
    missing = [log for log in options.logs if log not in known]
    if not missing:
        return {}
    starts = _starts(connection, options.start, missing, max(0.0, end - time.monotonic()))
    try:
        move(connection, group, {log: GroupPosition(at) for log, at in starts.items()}, end - time.monotonic())
    except ConsumerBusy:
        known = stored(connection, group, missing, end - time.monotonic())
        return {log: at for log, at in starts.items() if log not in known}
    return {}


def _starts(
    connection: KafkaConnection, start: GroupStart, logs: Sequence[Log], timeout: float
) -> Mapping[Log, Position]:
    if isinstance(start, Mapping):
        return {log: start[log] for log in logs}
    return resolve(connection, start, logs, timeout)
