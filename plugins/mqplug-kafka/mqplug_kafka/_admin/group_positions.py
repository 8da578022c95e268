"""Reads and stores the positions of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from mqplug import EARLIEST, ConsumerBusy, GroupNotFound, Log, Position
from mqplug.spi import ConsumerOptions, Deadline, GroupPosition, GroupStart
from mqplug_kafka._admin.commit_metadata import cut_acked, pack_acked, unpack_acked
from mqplug_kafka._admin.log_offsets import LOG_END, look_up, resolve_start
from mqplug_kafka._admin.transaction_marks import check_group_name
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import typed_error


def as_committed(positions: Mapping[Log, GroupPosition]) -> list[TopicPartition]:
    """Return positions in the form that the client commits."""
    return [
        TopicPartition(
            log.topic, log.partition, to.position.coordinates[0], pack_acked(to.position.coordinates[0], to.acked)
        )
        for log, to in positions.items()
    ]


def stored_group_positions(
    connection: KafkaConnection, group: str, logs: Iterable[Log], timeout: float, *, settled: bool = True
) -> dict[Log, GroupPosition]:
    """Return the group's stored position for each log that has one. See ``GroupOffsets.ask`` for ``settled``.

    Cut acked ranges at the end of the log: another program may have written them, or the log may have lost its end.
    """
    deadline = Deadline(timeout)
    names = {(log.topic, log.partition): log for log in logs}
    if not names:
        return {}
    wanted = [TopicPartition(*name) for name in names]
    stored = {
        names[each.topic, each.partition]: (each.offset, unpack_acked(each.offset, each.metadata))
        for each in connection.stored_offsets(f"group {group!r}", group, wanted, timeout, settled=settled)
        if each.offset >= 0
    }
    with_acks = [log for log, (_, acked) in stored.items() if acked]
    high = look_up(connection, with_acks, LOG_END)(deadline.remaining())
    return {
        log: GroupPosition(Position(log, (offset,)), cut_acked(acked, high[log]) if acked else ())
        for log, (offset, acked) in stored.items()
    }


def move_group_positions(
    connection: KafkaConnection, group: str, positions: Mapping[Log, GroupPosition], timeout: float
) -> None:
    """Store positions of a group without members. Raise ``ConsumerBusy`` if it has members."""
    check_group_name(group)
    wanted = [ConsumerGroupTopicPartitions(group, as_committed(positions))]
    connection.coordinators.ask(
        f"group {group!r}",
        lambda admin, seconds: admin.alter_consumer_group_offsets(wanted, request_timeout=seconds)[group],
        timeout,
        _raise_first,
    )


def _raise_first(answer: ConsumerGroupTopicPartitions) -> None:
    """Raise the first refusal in the answer, which has an error for each partition."""
    for each in answer.topic_partitions or ():
        if each.error is not None:
            busy = each.error.code() in {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP}
            group = f"group {answer.group_id!r}{' has members' if busy else ''}"
            raise typed_error(each.error, group, ConsumerBusy if busy else None)


def begin_group(
    connection: KafkaConnection, group: str, options: ConsumerOptions, timeout: float
) -> dict[Log, Position]:
    """Store the start of each log where the group has no position. Added partitions begin at EARLIEST.

    Kafka refuses this while the group has members. In that case return the missing starts: the member stores each one
    when the log is assigned to it.
    """
    check_group_name(group)
    deadline = Deadline(timeout)
    known = stored_group_positions(connection, group, options.logs, timeout, settled=False)
    if options.must_exist and not known:
        raise GroupNotFound(f"the group {group!r} has no position on these topics", fix="Drop must_exist=True")
    missing = [log for log in options.logs if log not in known]
    if not missing:
        return {}
    topics = {log.topic for log in known}
    added = [log for log in missing if log.topic in topics]
    fresh = [log for log in missing if log.topic not in topics]
    starts = _starts(connection, options.start, fresh, deadline) | _starts(connection, EARLIEST, added, deadline)
    try:
        move_group_positions(
            connection, group, {log: GroupPosition(at) for log, at in starts.items()}, deadline.remaining()
        )
    except ConsumerBusy:
        known = stored_group_positions(connection, group, missing, deadline.remaining())
        return {log: at for log, at in starts.items() if log not in known}
    return {}


def _starts(
    connection: KafkaConnection, start: GroupStart, logs: Sequence[Log], deadline: Deadline
) -> dict[Log, Position]:
    if not logs:
        return {}
    if isinstance(start, Mapping):
        return {log: start[log] for log in logs}
    return resolve_start(connection, start, logs, deadline.remaining())
