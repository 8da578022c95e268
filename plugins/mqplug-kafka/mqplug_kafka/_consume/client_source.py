"""Reads through confluent-kafka's consumer: the plain path, and that of all members of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import error_from_native
from mqplug_kafka._consume.client_assignment import IncrementalAssignment, WholeAssignment
from mqplug_kafka._consume.message_columns import MessageColumns, messages_by_partition, name_of
from mqplug_kafka._consume.message_source import NOTHING, Assignment, Fetched, Name, PartitionError


class ClientRows:
    """Native messages of one partition."""

    __slots__ = ("_messages",)

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def next_offset(self) -> int:
        """Return the offset behind the last of them."""
        return (self._messages[-1].offset() or 0) + 1

    def columns(self) -> MessageColumns:
        """Return their columns."""
        return MessageColumns(self._messages)


class ClientSource:
    """A native consumer as a source of messages."""

    def __init__(self, native: Consumer, *, eager: bool = False) -> None:
        self.native = native
        self.assignment: Assignment = WholeAssignment(native) if eager else IncrementalAssignment(native)

    @classmethod
    def opened(cls, connection: KafkaConnection, options: Mapping[str, Any], *, eager: bool = False) -> ClientSource:
        """Return one over a new native consumer."""
        try:
            native = Consumer(connection.credentials.prepared(options, connection.requests.failures))
        except KafkaException as error:
            raise error_from_native(error, "the settings were refused") from error
        return cls(native, eager=eager)

    def fetch(self, most: int, timeout: float, only: Callable[[], Name | None]) -> Fetched:
        """Wait for one message and take the others that are there: the native call for many waits for all of them."""
        first = self.native.poll(timeout)
        if first is None:
            return NOTHING
        rest = self.native.consume(most - 1, 0) if most > 1 else []
        return _sorted([first, *rest], only())

    def serve(self) -> Fetched:
        """Serve callbacks. Return a message that arrived meanwhile."""
        message = self.native.poll(0)
        return NOTHING if message is None else _sorted([message], None)

    def vouches_for(self, fetched: Fetched, timeout: float) -> bool:
        """Return True: other sources are measured by this one."""
        return True

    def pause(self, names: Iterable[Name]) -> None:
        """Stop fetching these partitions."""
        self.native.pause([TopicPartition(*name) for name in names])

    def resume(self, names: Iterable[Name]) -> None:
        """Fetch these partitions again."""
        self.native.resume([TopicPartition(*name) for name in names])

    def close(self) -> None:
        """End the native consumer."""
        self.native.close()


def _sorted(messages: list[Message], only: Name | None) -> Fetched:
    """Return messages by partition, and the errors among them apart."""
    errors = []
    if any(map(Message.error, messages)):  # an error compares with nothing, not even None, but is true
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
