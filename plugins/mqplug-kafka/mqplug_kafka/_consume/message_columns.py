"""Native messages as batches, whose columns are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import cast

from confluent_kafka import Message

from mqplug import Batch, Log, Position
from mqplug.spi import Headers, Numbers

_SECOND: Callable[[tuple[int, int]], int] = itemgetter(1)

Name = tuple[str, int]
"""Topic and partition, the native client's name of a log."""


def name_of(message: Message) -> Name:
    """Return the partition of a message, or of an event about a partition."""
    return message.topic() or "", message.partition() or 0


def messages_by_partition(messages: list[Message]) -> dict[Name, list[Message]]:
    """Return the messages of each partition, in their order."""
    topics, partitions = list(map(Message.topic, messages)), list(map(Message.partition, messages))
    count = len(messages)
    if topics.count(topics[0]) == count and partitions.count(partitions[0]) == count:
        return {name_of(messages[0]): messages}
    found: dict[Name, list[Message]] = {}
    for name, message in zip(zip(topics, partitions, strict=True), messages, strict=True):
        found.setdefault(cast(Name, name), []).append(message)
    return found


def batch(log: Log, messages: list[Message], next_offset: int) -> Batch:
    """Return messages of one partition as a batch."""
    return Batch(log, Position(log, (next_offset,)), len(messages), MessageColumns(messages))


class MessageColumns:
    """The columns of native messages. Each is one pass over the messages, in C."""

    __slots__ = ("_messages",)

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def coordinates(self) -> Sequence[Numbers]:
        """Return the offsets."""
        return cast("list[Numbers]", list(zip(map(Message.offset, self._messages), strict=False)))

    def details(self) -> None:
        """Return None: an offset needs no detail."""

    def keys(self) -> Sequence[bytes | None]:
        """Return the keys."""
        return list(map(Message.key, self._messages))

    def values(self) -> Sequence[bytes | None]:
        """Return the values."""
        return list(map(Message.value, self._messages))

    def headers(self) -> Sequence[Headers]:
        """Return the headers, in order, with their duplicates."""
        return [tuple(cast(Headers, each)) if each else () for each in map(Message.headers, self._messages)]

    def timestamps(self) -> Sequence[int]:
        """Return creation or arrival times, as the topic is configured, whatever number the producer gave."""
        return list(map(_SECOND, map(Message.timestamp, self._messages)))

    def log_times(self) -> Sequence[int]:
        """Return the timestamps: Kafka keeps one time of each message, and searches by it."""
        return self.timestamps()

    def attempts(self) -> None:
        """Return None: Kafka does not count deliveries."""
