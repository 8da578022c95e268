"""Reads and stores the positions of groups, and the marks of transactions, which are stored as positions.

The mark of a transaction is the number of its name's last step on a topic, stored in the transaction itself. Kafka has
no place for it except the offsets of groups. So the mark is the offset ``number`` of partition 0, with the note as its
metadata, in a group named after the transaction. This group has no members, and no other operation of mqplug shows or
accepts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from mqplug import EARLIEST, ConsumerBusy, GroupNotFound, InvalidName, Log, Position
from mqplug.spi import ConsumerOptions, Deadline, GroupPosition, GroupStart, TransactionMark
from mqplug_kafka._admin.commit_metadata import cut_acked, pack_acked, unpack_acked
from mqplug_kafka._admin.log_offsets import LOG_END, look_up, resolve_start
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import typed_error

MARK_GROUP_PREFIX = "mqplug-transaction-"


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


def mark_group(name: str) -> str:
    """Return the group that keeps the marks of a transaction name."""
    return f"{MARK_GROUP_PREFIX}{name}"


def keeps_marks(group: str) -> bool:
    """Return whether this group keeps marks, and is not a group of consumers."""
    return group.startswith(MARK_GROUP_PREFIX)


def check_group_name(group: str) -> None:
    """Raise ``InvalidName`` for a group that keeps marks."""
    if keeps_marks(group):
        raise InvalidName(
            f"the group {group!r} keeps the marks of a transaction",
            fix=f"Choose a name that does not begin with {MARK_GROUP_PREFIX}",
        )


def mark_as_committed(mark: TransactionMark) -> TopicPartition:
    """Return a mark in the form that the client stores."""
    return TopicPartition(mark.topic, 0, mark.number, mark.note)


def reached_mark(
    connection: KafkaConnection, name: str, mark: TransactionMark, deadline: Deadline
) -> TransactionMark | None:
    """Return the committed mark if its number is this one or higher, otherwise None."""
    group = mark_group(name)
    what = f"the mark of the transaction {name!r} in the group {group!r}"
    (stored,) = connection.stored_offsets(what, group, [TopicPartition(mark.topic, 0)], deadline.remaining())
    return TransactionMark(mark.topic, stored.offset, stored.metadata or "") if stored.offset >= mark.number else None
