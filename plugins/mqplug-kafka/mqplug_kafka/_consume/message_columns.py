"""The columns of native messages, which are read on demand.

Only this module reads the fields of native messages that are delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from confluent_kafka import Message

from mqplug.spi import Headers, Numbers
from mqplug_kafka._consume.message_source import Name

if TYPE_CHECKING:
    import pyarrow

_SECOND: Callable[[tuple[int, int]], int] = itemgetter(1)


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
        found = list(map(Message.headers, self._messages))
        if not any(found):
            return [()] * len(found)
        return [tuple(cast(Headers, each)) if each else () for each in found]

    def timestamps(self) -> Sequence[int]:
        """Return creation or arrival times, as the topic is configured, whatever number the producer gave."""
        return list(map(_SECOND, map(Message.timestamp, self._messages)))

    def log_times(self) -> Sequence[int]:
        """Return the timestamps: Kafka keeps one time of each message, and searches by it."""
        return self.timestamps()

    def attempts(self) -> None:
        """Return None: Kafka does not count deliveries."""

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return the columns of numbers as arrays: no tuple is made for an offset, and both times are one array.

        The client counts the types of timestamps from 1, and Kafka itself from 0.
        """
        import pyarrow as pa

        arrays: dict[str, pyarrow.Array] = {}
        if "offset" in names:
            arrays["offset"] = pa.array(list(map(Message.offset, self._messages)), pa.int64())
        if {"timestamp", "log_time", "timestamp_type"}.isdisjoint(names):
            return arrays
        stamps = list(map(Message.timestamp, self._messages))
        times = pa.array(list(map(_SECOND, stamps)), pa.int64()).view(pa.timestamp("ms", tz="UTC"))
        arrays |= {name: times for name in ("timestamp", "log_time") if name in names}
        if "timestamp_type" in names:
            arrays["timestamp_type"] = pa.array([kind - 1 for kind, _ in stamps], pa.int32())
        return arrays
