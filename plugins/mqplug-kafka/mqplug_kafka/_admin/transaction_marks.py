"""The marks of transactions, which are stored as positions of a group.

The mark of a transaction is the number of its name's last step on a topic, stored in the transaction itself. Kafka has
no place for it except the offsets of groups. So the mark is the offset ``number`` of partition 0, with the note as its
metadata, in a group named after the transaction. This group has no members, and no other operation of mqplug shows or
accepts it.
"""

from __future__ import annotations

from confluent_kafka import TopicPartition

from mqplug import InvalidName
from mqplug.spi import Deadline, TransactionMark
from mqplug_kafka._cluster.connection import KafkaConnection

MARK_GROUP_PREFIX = "mqplug-transaction-"


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
