"""Reads through confluent-kafka's consumer: the plain source of readers, and the source of all members of groups.

Partitions are assigned to the consumer one by one, or all at once, as the rebalance protocol demands. Only this module
reads the fields of delivered messages: it makes each column on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from mqplug.spi import Headers, Numbers
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import typed_error
from mqplug_kafka._consume.message_source import NOTHING, Assignment, Fetched, Name, Offsets, PartitionError

if TYPE_CHECKING:
    import pyarrow


FETCH_MESSAGES = 1000  # at most at a time, because each is an object of its own

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


class ClientRows:
    """The client's messages of one partition, as columns. Each column is one pass over the messages, in C."""

    __slots__ = ("_messages",)

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def next_offset(self) -> int:
        """Return the offset after the last message."""
        return (self._messages[-1].offset() or 0) + 1

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
        """Return creation or arrival times, depending on the topic's configuration."""
        return list(map(_SECOND, map(Message.timestamp, self._messages)))

    def log_times(self) -> Sequence[int]:
        """Return the timestamps: Kafka keeps one time for each message, and searches by it."""
        return self.timestamps()

    def attempts(self) -> None:
        """Return None: Kafka does not count deliveries."""

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return the columns of numbers as arrays: without a tuple for each offset, and with one array for both times.

        The client numbers the types of timestamps from 1, Kafka itself from 0.
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


class IncrementalAssignment:
    """An assignment for cooperative rebalancing, and for readers without a group."""

    restarts_all = False

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def accept(self) -> None:
        self._consumer.incremental_assign([])

    def add(self, added: Offsets, held: Offsets) -> None:
        self._consumer.incremental_assign(_places(added))

    def remove(self, removed: Collection[Name], held: Offsets) -> None:
        self._consumer.incremental_unassign([TopicPartition(*name) for name in removed])


class WholeAssignment:
    """An assignment for eager rebalancing, with which the client refuses incremental changes."""

    restarts_all = True

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def accept(self) -> None:
        self._consumer.assign([])

    def add(self, added: Offsets, held: Offsets) -> None:
        self._consumer.assign(_places(held))

    def remove(self, removed: Collection[Name], held: Offsets) -> None:
        if held:
            self._consumer.assign(_places(held))
        else:
            self._consumer.unassign()  # a revocation waits for this call


def _places(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(*name, offset) for name, offset in offsets.items()]


class ClientSource:
    """A client's consumer as a source of messages."""

    def __init__(self, consumer: Consumer, *, eager: bool = False) -> None:
        self.consumer = consumer
        self.assignment: Assignment = WholeAssignment(consumer) if eager else IncrementalAssignment(consumer)

    @classmethod
    def opened(cls, connection: KafkaConnection, options: Mapping[str, Any], *, eager: bool = False) -> ClientSource:
        """Return a source with a new client's consumer."""
        try:
            consumer = Consumer(connection.credentials.prepared(options, connection.requests.failures))
        except KafkaException as error:
            raise typed_error(error, "the settings were refused") from error
        return cls(consumer, eager=eager)

    def fetch(self, most: int, timeout: float, only: Callable[[], Name | None]) -> Fetched:
        """Wait for one message, then take the others that have arrived: the client's call for many waits for all."""
        first = self.consumer.poll(timeout)
        if first is None:
            return NOTHING
        rest = self.consumer.consume(min(most, FETCH_MESSAGES) - 1, 0) if most > 1 else []
        return _sorted([first, *rest], only())

    def serve(self) -> Fetched:
        """Serve callbacks. Return a message if one has arrived."""
        message = self.consumer.poll(0)
        return NOTHING if message is None else _sorted([message], None)

    def is_verified(self, fetched: Fetched, timeout: float) -> bool:
        """Return True: this is the reference source."""
        return True

    def pause(self, names: Iterable[Name]) -> None:
        """Stop fetching these partitions."""
        self.consumer.pause([TopicPartition(*name) for name in names])

    def resume(self, names: Iterable[Name]) -> None:
        """Fetch these partitions again."""
        self.consumer.resume([TopicPartition(*name) for name in names])

    def close(self) -> None:
        """End the client's consumer."""
        self.consumer.close()


def _sorted(messages: list[Message], only: Name | None) -> Fetched:
    """Return messages by partition, and separately the errors among them."""
    errors = []
    if any(map(Message.error, messages)):  # an error cannot be compared, not even with None, but is true
        errors = [
            PartitionError(name_of(each), each.offset() or 0, error)
            for each in messages
            if (error := each.error()) is not None
        ]
        messages = [each for each in messages if each.error() is None]
    if not messages:
        return Fetched((), errors)
    by_name = messages_by_partition(messages) if only is None else {only: messages}
    return Fetched([(name, ClientRows(some)) for name, some in by_name.items()], errors)
