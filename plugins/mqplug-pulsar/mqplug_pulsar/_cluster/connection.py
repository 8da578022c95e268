"""The connection: the client library's client, the admin interface if there is one, and the known topics.

``connect`` makes one within the timeout, with a distinct error for each cause of failure.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import _pulsar
import attrs
import pulsar

import mqplug
from mqplug import Broker, ClusterInfo, Log, MessageId, Position
from mqplug.spi import Capabilities, Connection, Deadline, Numbers, TopicInfo
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._cluster.admin_interface import (
    ADMIN_URL_FIX,
    AdminInterface,
    AdminRefused,
    error_from_refusal,
    open_admin_interface,
)
from mqplug_pulsar._cluster.broker_statistics import Ledgers
from mqplug_pulsar._cluster.client_calls import ClientCalls, close_at_exit, under_way
from mqplug_pulsar._cluster.credentials import Credentials
from mqplug_pulsar._cluster.handshake import Greeting, shake_hands
from mqplug_pulsar._cluster.open_retrying import RetryingOpener
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.topic_names import NamespaceTopics, partition_topic
from mqplug_pulsar._settings import PulsarSettings

T = TypeVar("T")

ADMIN_CAPABILITIES = ("alter_topic", "delete_topic", "add_partitions", "list_topics", "topic_patterns", "retention")
"""The capabilities that need the admin interface."""
HANDSHAKE_S = 0.5  # to learn why the client library gets no answer
UNSUBSCRIBE_S = 1.0  # at least: a leftover subscription prevents the deletion of messages
PROBE_NAME = "mqplug-probe"  # a topic that need not exist: any answer shows that the broker is up


@attrs.frozen
class ClusterFacts:
    """The cluster's name and capabilities, as known when the connection is made."""

    cluster: str
    capabilities: Capabilities


class PulsarConnection(Connection):
    """The connection object that the hooks receive. Any thread may use it."""

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
        self.calls = ClientCalls()
        self.opener = RetryingOpener(client, self.calls.closed)
        self.cluster = facts.cluster
        self.names = names
        self.capabilities = facts.capabilities
        self._greet = greet
        self._unpartitioned: dict[str, bool] = {}
        self._known: dict[str, TopicInfo] = {}

    def after(self, message_id: MessageId) -> Position:
        return Position(message_id.log, message_ids.position_after(message_id.coordinates, message_id.detail))

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

    def required_admin(self, capability: str, what: str) -> AdminInterface:
        """Return the admin interface. Raise ``Unsupported`` if there is none."""
        if self.admin is None:
            raise mqplug.Unsupported(capability, f"{what} needs Pulsar's admin interface", fix=ADMIN_URL_FIX)
        return self.admin

    def notes(self) -> Sequence[str]:
        return compiled_part.notes(self.settings)

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self.client if isinstance(self.client, kind) else None

    def close(self, timeout: float) -> None:
        self.calls.close()
        with under_way(), suppress(_pulsar.PulsarException):  # readers and producers still open end with the client
            self.client.close()

    def describe_cluster(self, timeout: float) -> ClusterInfo:
        """Return the running brokers, with the addresses of their admin interfaces."""
        admin = self.required_admin("multi_node", "listing brokers")
        try:
            found = admin.get(f"brokers/{quote(self.cluster, safe='')}", timeout)
        except AdminRefused as error:
            raise error_from_refusal(error) from error
        return ClusterInfo(self.cluster, tuple(Broker(each, each) for each in sorted(found)))

    # topics ------------------------------------------------------------------------------------------------

    def describe(self, topic: str, timeout: float) -> TopicInfo:
        """Return a topic and its logs. Raise ``TopicNotFound`` if it does not exist."""
        full, name = self.names.full(topic), self.names.canonical(topic)
        if timeout <= 0 and name in self._known:  # no time to ask: the last answer
            return self._known[name]
        topics = self._native_topics(full, timeout)
        self._unpartitioned[name] = topics == [full]
        if self._unpartitioned[name] and self.admin is not None:
            self.admin.stats(full, timeout)  # or raise: a broker that creates topics automatically found the name above
        info = self._known[name] = TopicInfo(name, tuple(self.log(name, number) for number in range(len(topics))))
        return info

    def log(self, name: str, partition: int) -> Log:
        """Return the log of one partition. ``name`` is canonical."""
        return Log("pulsar", self.cluster, name, partition)

    def native_topic(self, log: Log) -> str:
        """Return the Pulsar topic that holds a log. May ask the broker."""
        full = self.names.full(log.topic)
        if log.topic not in self._unpartitioned:
            self._unpartitioned[log.topic] = self.client.get_topic_partitions(full) == [full]
        return full if self._unpartitioned[log.topic] else partition_topic(full, log.partition)

    def _native_topics(self, full: str, timeout: float) -> list[str]:
        """Return the Pulsar topics that hold the messages of a topic.

        The client library does not report why a broker refuses its connections, for example that a token has expired.
        So if it gets no answer, a handshake raises the reason.

        The pool's threads also call this, so it must not wait for one of them: the calls would wait for each other.
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
        """Return the ledgers of a log. Without the admin interface, use a temporary subscription and reader."""
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
        """Return the position after the last message; None if there is no message."""
        last = self.last_id(topic, timeout)
        return None if last is None else message_ids.position_after(*last)

    def last_id(self, topic: str, timeout: float) -> tuple[Numbers, Numbers] | None:
        """Return coordinates and detail of the last message, or None. Use a temporary subscription."""
        deadline = Deadline(timeout)
        consumer = self.opener.consumer(topic, f"{PROBE_NAME}-{uuid4().hex[:16]}")
        try:
            return self.last_message(consumer, deadline.remaining())
        finally:
            self.unsubscribe(consumer, max(UNSUBSCRIBE_S, deadline.remaining()))

    def last_message(self, consumer: Any, timeout: float) -> tuple[Numbers, Numbers] | None:
        """Return coordinates and detail of the last message in the topic of a client's consumer, or None."""
        native = self.calls.answer(consumer._consumer.get_last_message_id_async, timeout)
        if native.entry_id() < 0:
            return None
        index = native.batch_index()
        return message_ids.coordinates(native), (index + 1,) if index >= 0 else ()

    def unsubscribe(self, consumer: Any, timeout: float) -> None:
        """Delete the subscription of a client's consumer, which closes the consumer."""
        self.calls.answer(consumer._consumer.unsubscribe_async, timeout)

    def reading(self, topic: str, start: Numbers, use: Callable[[Any], T], *, queue: int = 10) -> T:
        """Return the result of ``use`` with a temporary reader that begins at a position."""
        reader = self.reader(topic, start, queue)
        try:
            return use(reader)
        finally:
            reader.close()

    def reader(self, topic: str, start: Numbers, queue: int) -> Any:
        """Return a client's reader whose first message lies at the position or later."""
        native = pulsar.MessageId(-1, *message_ids.start_of(start))
        return self.opener.reader(topic, native, receiver_queue_size=queue, start_message_id_inclusive=True)


def _first_position(reader: Any, timeout: float) -> Numbers | None:
    if not reader.has_message_available():
        return None
    message = reader.read_next(max(1, int(timeout * 1000)))
    return message_ids.position_before(message_ids.coordinates(message.message_id()))


METADATA_BYTES = 10 * 1024  # room for the metadata that the client sends with a message
ANY_STANDALONE = "standalone"  # the name of each standalone broker; cluster= distinguishes them

logger = logging.getLogger("mqplug.pulsar")


def connect(settings: PulsarSettings, declared: Capabilities, timeout: float) -> PulsarConnection:
    """Connect, and check that a Pulsar broker answers and accepts the credentials."""
    deadline = Deadline(timeout)
    _check_files(settings)
    compiled_part.compiled_use(settings)  # or a ConfigError, if the settings require what cannot be used
    credentials = Credentials(settings)
    authentication = credentials.native()  # gets the first token, so that a wrong setting is reported before any I/O
    names = NamespaceTopics(settings.tenant, settings.namespace)
    greet = partial(shake_hands, settings, credentials, names.prefix + PROBE_NAME)
    welcome = greet(deadline)
    if welcome.service_url != settings.service_url:
        logger.warning("no broker answers at some of %s: using only %s", settings.service_url, welcome.service_url)
    admin = open_admin_interface(settings, credentials, deadline)
    facts = _ask_cluster(settings, admin, _limited(settings, declared, welcome.greeting), deadline)
    client = _client(settings, welcome.service_url, authentication, max(0.1, timeout))
    close_at_exit(client)
    connection = PulsarConnection(settings, names, client, admin, facts, greet)
    try:
        connection.health(deadline.remaining())
    except BaseException:
        Thread(target=connection.close, args=(0,), name="mqplug-pulsar-close", daemon=True).start()
        raise
    return connection


def _limited(settings: PulsarSettings, declared: Capabilities, greeting: Greeting) -> Capabilities:
    """Return the capabilities with the maximum message size from the broker and the settings."""
    largest = settings.message_max_bytes or declared.message_max_bytes
    if greeting.message_max_bytes is not None:
        most = greeting.message_max_bytes - METADATA_BYTES
        largest = min(settings.message_max_bytes or most, most)
    return attrs.evolve(declared, message_max_bytes=largest)


def _check_files(settings: PulsarSettings) -> None:
    for name in ("tls_ca", "tls_certificate", "tls_key"):
        path = getattr(settings, name)
        if path is not None and not os.access(path, os.R_OK):
            raise mqplug.ConfigError(f"the file {path!r} of {name} cannot be read", fix=f"Check {name}=")


def _client(
    settings: PulsarSettings, service_url: str, authentication: pulsar.Authentication | None, timeout: float
) -> pulsar.Client:
    try:
        return pulsar.Client(
            service_url,
            authentication=authentication,
            operation_timeout_seconds=max(1, min(30, math.ceil(timeout))),
            connection_timeout_ms=max(100, min(10_000, int(timeout * 1000))),
            tls_trust_certs_file_path=settings.tls_ca,
            tls_allow_insecure_connection=settings.tls_allow_insecure,
            tls_validate_hostname=settings.secure and settings.tls_validate_hostname,
            listener_name=settings.listener_name,
            # Never a Python logger: with one, processes sometimes aborted at exit.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, settings.log_file or os.devnull),
        )
    except (_pulsar.PulsarException, ValueError, RuntimeError) as error:
        message = f"pulsar-client refused its settings: {error}"
        raise mqplug.ConfigError(message, fix="Check service_url=") from error


def _ask_cluster(
    settings: PulsarSettings, admin: AdminInterface | None, declared: Capabilities, deadline: Deadline
) -> ClusterFacts:
    """Ask the admin interface about the cluster, within this client's rights."""
    if admin is None:
        lacking: dict[str, Any] = dict.fromkeys(ADMIN_CAPABILITIES, False)
        return ClusterFacts(settings.cluster or "", attrs.evolve(declared, **lacking))
    try:
        running = admin.get("brokers/configuration/runtime", deadline.remaining())
    except (mqplug.AccessDenied, AdminRefused):  # not an administrator of the cluster
        return ClusterFacts(settings.cluster or _only_cluster(settings, admin, deadline.remaining()), declared)
    except mqplug.Timeout as error:
        raise mqplug.ConnectError("the admin interface did not answer in time", fix="Check admin_url=") from error
    if not isinstance(running, dict) or "clusterName" not in running:
        raise _not_pulsar(settings, "the answer is not from Pulsar")
    by_index = running.get("acknowledgmentAtBatchIndexLevelEnabled") == "true"
    facts = attrs.evolve(declared, ack_granularity="message" if by_index else "entry")
    name = str(running["clusterName"])
    if settings.cluster not in {None, name} and name != ANY_STANDALONE:
        logger.warning(
            "cluster=%s replaces the cluster's own name, %s, in ids: clients without cluster= refuse them",
            settings.cluster, name,
        )  # fmt: skip
    return ClusterFacts(settings.cluster or name, facts)


def _only_cluster(settings: PulsarSettings, admin: AdminInterface, timeout: float) -> str:
    """Return the cluster's name for a role that is not a superuser. Raise ``ConfigError`` if there are several."""
    try:
        clusters = admin.get("clusters", timeout)
    except mqplug.AccessDenied:
        clusters = []
    except AdminRefused as error:
        raise _not_pulsar(settings, f"HTTP {error.status}") from error
    except mqplug.Timeout as error:
        raise mqplug.ConnectError("the admin interface did not answer in time", fix="Check admin_url=") from error
    if len(clusters) == 1:
        return str(clusters[0])
    raise mqplug.ConfigError(
        f"the cluster's name, part of every id, is unknown: the admin interface shows {len(clusters)} clusters",
        backend="pulsar",
        fix="Set cluster=",
    )


def _not_pulsar(settings: PulsarSettings, reason: str) -> mqplug.ConnectError:
    return mqplug.ConnectError(
        f"no Pulsar admin interface answers at {settings.admin_url}: {reason}", backend="pulsar", fix=ADMIN_URL_FIX
    )
