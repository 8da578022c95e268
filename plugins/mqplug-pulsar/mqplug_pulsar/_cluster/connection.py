"""The connection: a native client, the admin interface if there is one, and the topics that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import _pulsar
import attrs
import pulsar

import mqplug
from mqplug import Log, MessageId, Position
from mqplug.spi import Capabilities, Deadline, Numbers, TopicInfo
from mqplug_pulsar._cluster import native_part
from mqplug_pulsar._cluster.admin_interface import ADMIN_URL_FIX, AdminInterface
from mqplug_pulsar._cluster.broker_statistics import Ledgers
from mqplug_pulsar._cluster.daemon_threads import under_way
from mqplug_pulsar._cluster.native_calls import NativeCalls
from mqplug_pulsar._cluster.open_retrying import RetryingOpener
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.topic_names import NamespaceTopics, partition_topic
from mqplug_pulsar._settings import PulsarSettings

T = TypeVar("T")

ADMIN_CAPABILITIES = ("alter_topic", "delete_topic", "add_partitions", "list_topics", "topic_patterns", "retention")
"""What only the admin interface can do."""
HANDSHAKE_S = 0.5  # to learn why the native client gets no answer
UNSUBSCRIBE_S = 1.0  # at least: what is left behind keeps messages from being deleted
PROBE_NAME = "mqplug-probe"  # a topic that need not exist: any answer shows that the broker is up


@attrs.frozen
class ClusterFacts:
    """The cluster's name and capabilities, as known when the connection is made."""

    cluster: str
    capabilities: Capabilities


class PulsarConnection:
    """The connection that the hooks get. Any thread may use it."""

    def __init__(
        self,
        settings: PulsarSettings,
        names: NamespaceTopics,
        client: pulsar.Client,
        admin: AdminInterface | None,
        facts: ClusterFacts,
        greet: Callable[[Deadline], object],
    ) -> None:
        self.settings = settings
        self.address = settings.service_url
        self.client = client
        self.admin = admin
        self.calls = NativeCalls()
        self.opener = RetryingOpener(client, self.calls.closed)
        self.cluster = facts.cluster
        self.names = names
        self.capabilities = facts.capabilities
        self._greet = greet
        self._unpartitioned: dict[str, bool] = {}
        self._known: dict[str, TopicInfo] = {}

    def after(self, message_id: MessageId) -> Position:
        return Position(message_id.log, message_ids.position_behind(message_id.coordinates, message_id.detail))

    def is_possible(self, coordinates: Numbers) -> bool:
        return message_ids.is_possible(coordinates)

    def health(self, timeout: float) -> None:
        try:
            self._native_topics(self.names.prefix + PROBE_NAME, timeout)
        except (mqplug.TopicNotFound, mqplug.AccessDenied):
            pass  # the broker answered
        except (mqplug.Timeout, mqplug.ConnectError) as error:
            raise mqplug.ConnectError(
                f"no Pulsar broker answered at {self.address} in time", fix="Check that the broker is up"
            ) from (error.__cause__ or error)

    def advice(self, capability: str) -> str | None:
        return ADMIN_URL_FIX if self.admin is None and capability in ADMIN_CAPABILITIES else None

    def notes(self) -> Sequence[str]:
        return native_part.notes(self.settings)

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self.client if isinstance(self.client, kind) else None

    def close(self, timeout: float) -> None:
        self.calls.close()
        with under_way(), suppress(_pulsar.PulsarException):  # readers and producers still open end with the client
            self.client.close()

    # topics ------------------------------------------------------------------------------------------------

    def describe(self, topic: str, timeout: float) -> TopicInfo:
        """Return a topic and its logs. Raise ``TopicNotFound`` if there is none."""
        full, name = self.names.full(topic), self.names.canonical(topic)
        if timeout <= 0 and name in self._known:  # no time to ask: the last answer
            return self._known[name]
        topics = self._native_topics(full, timeout)
        self._unpartitioned[name] = topics == [full]
        if self._unpartitioned[name] and self.admin is not None:
            self.admin.stats(full, timeout)  # a broker that creates topics automatically finds every name
        info = self._known[name] = TopicInfo(name, tuple(self.log(name, number) for number in range(len(topics))))
        return info

    def log(self, name: str, partition: int) -> Log:
        """Return the log of one partition. The name is canonical."""
        return Log("pulsar", self.cluster, name, partition)

    def native_topic(self, log: Log) -> str:
        """Return the native topic that holds a log. May ask the broker."""
        full = self.names.full(log.topic)
        if log.topic not in self._unpartitioned:
            self._unpartitioned[log.topic] = self.client.get_topic_partitions(full) == [full]
        return full if self._unpartitioned[log.topic] else partition_topic(full, log.partition)

    def _native_topics(self, full: str, timeout: float) -> list[str]:
        """Return the topics that hold the messages of a topic.

        The native client does not tell why a broker refuses its connections, for example because a token has expired.
        So if it gets no answer, a handshake raises the reason.

        It runs on the threads of the pool, too, and needs none of them itself: questions would wait for each other.
        """
        try:
            found: list[str] = self.calls.ask(partial(self.client._client.get_topic_partitions_async, full), timeout)
        except (mqplug.Timeout, mqplug.ConnectError):
            with suppress(mqplug.ConnectError):
                self._greet(Deadline(HANDSHAKE_S))
            raise
        return found

    def forget(self, name: str) -> None:
        """Forget a topic that was deleted or created."""
        self._unpartitioned.pop(name, None)
        self._known.pop(name, None)

    # positions ---------------------------------------------------------------------------------------------

    def ledgers(self, log: Log, timeout: float) -> Ledgers:
        """Return the ledgers of a log; without the admin interface through a temporary subscription and reader."""
        topic = self.native_topic(log)
        if self.admin is not None:
            return Ledgers.read(self.admin.stats(topic, timeout))
        high = self.high_by_subscription(topic, timeout)
        if high is None:
            return Ledgers((), message_ids.LOG_BEGIN, message_ids.LOG_BEGIN)
        with_reader = self.reading(topic, message_ids.LOG_BEGIN, lambda reader: _first_position(reader, timeout))
        low = with_reader or high
        filled = ((high[0], high[1]),) if low[0] == high[0] else ((low[0], 1), (high[0], high[1]))
        return Ledgers(filled if low < high else (), low, high)

    def high_by_subscription(self, topic: str, timeout: float) -> Numbers | None:
        """Return the position behind the last message; None if there is no message."""
        last = self.last_id(topic, timeout)
        return None if last is None else message_ids.position_behind(*last)

    def last_id(self, topic: str, timeout: float) -> tuple[Numbers, Numbers] | None:
        """Return coordinates and detail of the last message, through a temporary subscription; None without one."""
        deadline = Deadline(timeout)
        consumer = self.opener.consumer(topic, f"{PROBE_NAME}-{uuid4().hex[:16]}")
        try:
            return self.last_message(consumer, deadline.remaining())
        finally:
            self.unsubscribe(consumer, max(UNSUBSCRIBE_S, deadline.remaining()))

    def last_message(self, consumer: Any, timeout: float) -> tuple[Numbers, Numbers] | None:
        """Return coordinates and detail of the last message in a native consumer's topic; None without one."""
        native = self.calls.answer(consumer._consumer.get_last_message_id_async, timeout)
        if native.entry_id() < 0:
            return None
        index = native.batch_index()
        return message_ids.coordinates(native), (index + 1,) if index >= 0 else ()

    def unsubscribe(self, consumer: Any, timeout: float) -> None:
        """Delete the subscription of a native consumer, which is closed by that."""
        self.calls.answer(consumer._consumer.unsubscribe_async, timeout)

    def reading(self, topic: str, start: Numbers, use: Callable[[Any], T], *, queue: int = 10) -> T:
        """Return the result of ``use`` with a temporary reader from a position on."""
        reader = self.reader(topic, start, queue)
        try:
            return use(reader)
        finally:
            reader.close()

    def reader(self, topic: str, start: Numbers, queue: int) -> Any:
        """Return a native reader whose first message lies at the position, or behind it."""
        native = pulsar.MessageId(-1, *message_ids.start_of(start))
        return self.opener.reader(topic, native, receiver_queue_size=queue, start_message_id_inclusive=True)


def _first_position(reader: Any, timeout: float) -> Numbers | None:
    if not reader.has_message_available():
        return None
    message = reader.read_next(max(1, int(timeout * 1000)))
    return message_ids.position_before(message_ids.coordinates(message.message_id()))
