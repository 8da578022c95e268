"""Finds the offsets at which messages lie, by reading a little of each log."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from mqplug import Log
from mqplug.spi import Deadline
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import error_from_native
from mqplug_kafka._cluster.native_options import consuming

NO_GROUP_ID = "mqplug-without-group"
"""The group id of consumers without a group. The native client requires one; nothing is stored under it."""

Spans = Mapping[Log, tuple[int, int]]


class OffsetScan:
    """A short-lived native consumer that reports the offsets of messages."""

    def __init__(self, connection: KafkaConnection, deadline: Deadline) -> None:
        options = consuming(connection.settings, NO_GROUP_ID, 1024 * 1024)
        self._connection = connection
        self._deadline = deadline
        self._consumer = Consumer(connection.credentials.prepared(options, connection.requests.failures))

    def __enter__(self) -> OffsetScan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def first(self, spans: Spans) -> dict[Log, int]:
        """Return the offset of the first message of each span that holds one."""
        return {log: offsets[0] for log, offsets in self._scan(spans, 1).items() if offsets}

    def last(self, spans: Spans, count: int) -> dict[Log, list[int]]:
        """Return the offsets of the last ``count`` messages of each span, or of all if there are fewer."""
        found: dict[Log, list[int]] = {}
        reach = dict.fromkeys(spans, count)
        while reach:
            windows = {log: (max(spans[log][0], spans[log][1] - far), spans[log][1]) for log, far in reach.items()}
            seen = self._scan(windows, None)
            done = {log for log, each in seen.items() if len(each) >= count or windows[log][0] == spans[log][0]}
            found |= {log: seen[log][-count:] for log in done}
            reach = {log: far * 4 for log, far in reach.items() if log not in done}
        return found

    def _scan(self, spans: Spans, most: int | None) -> dict[Log, list[int]]:
        """Return the offsets of the first ``most`` messages in each span, or of all if None."""
        found: dict[Log, list[int]] = {log: [] for log in spans}
        names = {(log.topic, log.partition): log for log in spans}
        left = set(spans)
        self._consumer.assign([TopicPartition(log.topic, log.partition, start) for log, (start, _) in spans.items()])
        while left:
            if self._deadline.expired:
                raise self._connection.requests.failures.explain("bounds", 0.0)
            for message in self._received():
                if _is_about_group(message):
                    continue  # it needs no right on the group that it does not use
                log = names[message.topic() or "", message.partition() or 0]
                offset, error = message.offset() or 0, message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise error_from_native(error, "bounds")
                if log not in left:
                    continue
                if error is None and offset < spans[log][1]:
                    found[log].append(offset)
                if error is not None or offset >= spans[log][1] - 1 or len(found[log]) == most:
                    left.discard(log)
        return found

    def _received(self) -> list[Message]:
        """Return the fetched messages, or one that arrives within 50 ms."""
        if messages := self._consumer.consume(1000, 0):
            return messages
        message = self._consumer.poll(0.05)
        return [] if message is None else [message]  # a native message with an empty value counts as false


def _is_about_group(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
