"""The connection to a cluster: its identity, admin requests, shared producers, and the known topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Event, Lock
from typing import Any, TypeVar

import attrs
from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import (
    Broker,
    Capabilities,
    ClusterInfo,
    ConnectError,
    Error,
    Log,
    MessageId,
    Position,
    Timeout,
    TopicNotFound,
)
from mqplug.spi import Connection, Deadline, Numbers, TopicInfo
from mqplug_kafka._cluster.admin_requests import OUTAGE_LIMIT_S, AdminRequests
from mqplug_kafka._cluster.client_options import (
    LEARNING_PARTITIONS,
    administering,
    coordinating,
    inquiring,
    producing,
)
from mqplug_kafka._cluster.compiled_part import compiled_use, library_version
from mqplug_kafka._cluster.coordinators import Coordinators, GroupOffsets
from mqplug_kafka._cluster.credentials import Credentials
from mqplug_kafka._cluster.errors import typed_error
from mqplug_kafka._cluster.shared_producer import SharedProducers
from mqplug_kafka._cluster.topic_metadata import LimitsOfTopics, MissingIds, incarnation, is_other
from mqplug_kafka._cluster.worker import Worker
from mqplug_kafka._settings import KafkaSettings

T = TypeVar("T")

MAX_LOG_OFFSET = 2**63 - 1
DESCRIBE_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 0.5  # for a check whether a coordinator answers, after the timeout
NEW_TOPIC_S = 3.0  # within this time all brokers know of a new topic
NEW_TOPIC_PAUSE_S = 0.02

ASKED_TOPIC = "__consumer_offsets"  # requests for metadata name one topic, existing or not: all may be many
ASK_SLICE_S = 1.0  # of one request; a closed client makes no further one
ASK_PAUSE_S = 0.02


class KafkaConnection(Connection):
    """A client's connection to a cluster."""

    def __init__(self, settings: KafkaSettings, capabilities: Capabilities, timeout: float) -> None:
        self.settings = settings
        self.capabilities = attrs.evolve(capabilities, message_max_bytes=settings.message_max_bytes)
        self.compiled = compiled_use(settings)
        self.credentials = Credentials(settings)
        try:
            self.requests = AdminRequests(administering(settings), self.credentials)
        except KafkaException as error:
            raise typed_error(error, "the settings were refused") from error
        self.worker = Worker("mqplug-kafka-admin")
        self.group_offsets = GroupOffsets(inquiring(settings), self.credentials, self.requests.failures)
        self.coordinators = Coordinators(coordinating(settings), self.credentials)
        self.shared_producers = SharedProducers(
            {**LEARNING_PARTITIONS, **producing(settings)}, self.credentials, self.requests.failures, self.compiled
        )
        requests = self.requests  # a reference to the connection itself would keep its threads until a collection
        self.limits = LimitsOfTopics(lambda: requests.admin)
        self.instances = Instances(settings.instance_id)
        self._topics: dict[str, TopicInfo] = {}
        self.known = self._topics.get
        """Returns the last description of a topic, or None, without I/O."""
        self._created: dict[str, float] = {}  # when this client created topics
        self._missing_ids = MissingIds()
        self._identity = ClusterIdentity(lambda: requests.admin)
        try:
            self.cluster = self._cluster_id(timeout)
        except BaseException:
            self._identity.end()
            raise

    def _cluster_id(self, timeout: float) -> str:
        """Return the cluster's id, from the connection's first request."""
        found = self._identity.ask(timeout)
        try:
            return self.requests.wait("connect", found, timeout, OUTAGE_LIMIT_S)
        except (ConnectError, Timeout) as error:
            servers = ", ".join(self.settings.servers)
            raise ConnectError(f"no Kafka broker answered at {servers}: {error.message}", fix=error.fix) from error

    def brokers(self, timeout: float) -> ClusterInfo:
        """Return the running brokers, by number, without a controller: with KRaft they name an arbitrary one.

        See ``ClusterIdentity`` for the reason why this reads the metadata.
        """
        asked = self.worker.run(lambda: self.admin.list_topics(ASKED_TOPIC, timeout=max(0.01, timeout)))
        found = self.requests.wait("describe cluster", asked, timeout)
        brokers = sorted(found.brokers.values(), key=lambda each: each.id)
        return ClusterInfo(
            str(found.cluster_id), tuple(Broker(str(each.id), f"{each.host}:{each.port}") for each in brokers)
        )

    @property
    def admin(self) -> AdminClient:
        """The admin client."""
        return self.requests.admin

    def after(self, message_id: MessageId) -> Position:
        """Return the position after a message: its offset plus 1. The next message lies there or later."""
        return Position(message_id.log, (message_id.coordinates[0] + 1,))

    def is_possible(self, coordinates: Numbers) -> bool:
        """Return whether this is a single offset of 64 bits that another offset can follow."""
        return len(coordinates) == 1 and 0 <= coordinates[0] < MAX_LOG_OFFSET

    def owns(self, log: Log) -> bool:
        """Return whether a log belongs to this cluster."""
        return (log.backend, log.cluster) == ("kafka", self.cluster)

    def advance(self, position: Position, count: int) -> Position:
        """Return the position ``count`` offsets later. At most ``count`` messages lie between."""
        return Position(position.log, (min(position.coordinates[0] + count, MAX_LOG_OFFSET - 1),))

    def distance(self, start: Position, until: Position) -> int:
        """Return the number of offsets between two positions. Some may have no message."""
        return until.coordinates[0] - start.coordinates[0]

    def health(self, timeout: float) -> None:
        """Check that the cluster answers. Raise the reason if it does not."""
        deadline = Deadline(timeout)
        self.requests.ask("health", self._identity.ask, timeout)
        if not self._missing_ids.looked:
            with suppress(Error):  # the cluster answers, so it is healthy
                self._look_at_any_topic(deadline)

    def _look_at_any_topic(self, deadline: Deadline) -> None:
        """Describe any topic, so that a broker without topic ids is detected and reported once."""
        listed = self.worker.run(lambda: self.admin.list_topics(timeout=max(deadline.remaining(), 0.01)))
        topics = self.requests.wait("list topics", listed, deadline.remaining()).topics
        self.describe(sorted(topics)[:1], deadline.remaining())

    def notes(self) -> list[str]:
        """Return whether the compiled part or the plain client reads and sends."""
        return self.compiled.notes(f"librdkafka {library_version()}")

    def unwrap(self, kind: type[Any]) -> Any | None:
        """Return the ``AdminClient``, or the ``Producer`` of an open producer."""
        if isinstance(self.admin, kind):
            return self.admin
        return self.shared_producers.unwrapped() if issubclass(Producer, kind) else None

    def close(self, timeout: float) -> None:
        """End the connection's threads and clients. The admin client ends when it is released."""
        self.worker.stop()
        self._identity.end()
        self.group_offsets.close()
        self.coordinators.close()

    def stored_offsets(
        self, what: str, group: str, partitions: Sequence[TopicPartition], timeout: float, *, settled: bool = True
    ) -> list[TopicPartition]:
        """Return a group's stored offsets. See ``GroupOffsets.ask`` for ``settled``."""
        # A second after the timeout serves to find out why there is no answer.
        asked = self.group_offsets.ask(group, partitions, timeout + 2 * ANSWER_TIMEOUT_S, settled=settled)
        try:
            return self.requests.wait(what, asked, timeout)
        except (Timeout, ConnectError) as error:
            if not settled or not self._answers(group, partitions):
                raise
            with suppress(Timeout, ConnectError):  # the coordinator may just have come back
                return self.requests.wait(what, asked, ANSWER_TIMEOUT_S / 2)
            raise Timeout(
                f"{what}: a transaction that stores positions of the group {group!r} did not end in time",
                fix="Begin the next transaction of its name, which ends it, or find it with kafka-transactions.sh",
            ) from error

    def _answers(self, group: str, partitions: Sequence[TopicPartition]) -> bool:
        """Return whether the group's coordinator answers a request that does not wait for transactions."""
        asked = self.group_offsets.ask(group, partitions, ANSWER_TIMEOUT_S, settled=False)
        try:
            self.requests.wait(f"group {group!r}", asked, ANSWER_TIMEOUT_S)
        except Error:
            return False
        return True

    # topics ------------------------------------------------------------------------------------------------

    def describe(self, names: Iterable[str], timeout: float) -> dict[str, TopicInfo]:
        """Return the cluster's present descriptions of these topics. Raise ``TopicNotFound`` if one is missing."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        return self.while_new(wanted, timeout, lambda left: self._describe(wanted, left))

    def while_new(self, topics: Iterable[str], timeout: float, ask: Callable[[float], T]) -> T:
        """Ask about topics. Repeat it while one is missing that this client just created: some brokers learn late."""
        deadline, topics = Deadline(timeout), list(topics)
        while True:
            try:
                return ask(deadline.remaining())
            except TopicNotFound:
                new = time.monotonic() - NEW_TOPIC_S
                if deadline.expired or not any(self._created.get(topic, new) > new for topic in topics):
                    raise
                time.sleep(NEW_TOPIC_PAUSE_S)

    def _describe(self, wanted: list[str], timeout: float) -> dict[str, TopicInfo]:
        return self.requests.insist(lambda left: self._described(wanted, left), timeout)

    def _described(self, wanted: list[str], timeout: float) -> dict[str, TopicInfo]:
        asked = self.admin.describe_topics(TopicCollection(wanted), request_timeout=max(timeout, 0.01))
        return {name: self.remember(self.requests.wait(f"topic {name!r}", asked[name], timeout)) for name in wanted}

    def begin_to_describe(self, topic: str) -> Future[TopicDescription]:
        """Begin to describe a topic. Pass the answer to ``remember``."""
        return self.admin.describe_topics(TopicCollection([topic]), request_timeout=DESCRIBE_TIMEOUT_S)[topic]

    def remember(self, topic: TopicDescription) -> TopicInfo:
        """Remember a described topic, and return it."""
        self._missing_ids.look(topic)
        its_id = incarnation(topic)
        logs = [self.log(topic.name, each.id, its_id) for each in topic.partitions]
        info = self._topics[topic.name] = TopicInfo(topic.name, tuple(sorted(logs, key=lambda log: log.partition)))
        return info

    def check(self, logs: Iterable[Log], timeout: float) -> None:
        """Raise ``TopicNotFound`` unless each log still exists. A recreated topic of the same name does not count."""
        logs = list(logs)
        found = self.describe({log.topic for log in logs}, timeout)
        same = {log for topic in found.values() for log in topic.logs}
        for log in logs:
            if log not in same and not any(_continues(each, log) for each in found[log.topic].logs):
                raise TopicNotFound(f"the topic {log.topic!r} was deleted and created again", topic=log.topic)

    def created(self, topic: str) -> None:
        """Note that this client just created a topic."""
        self._created[topic] = time.monotonic()

    def forget(self, topic: str) -> None:
        """Forget a deleted topic."""
        self._created.pop(topic, None)
        self._topics.pop(topic, None)
        self.limits.forget(topic)

    def log(self, topic: str, partition: int, incarnation: str) -> Log:
        """Return the log of a partition."""
        return Log("kafka", self.cluster, topic, partition, incarnation)


def _continues(found: Log, log: Log) -> bool:
    return found.partition == log.partition and not is_other(found.incarnation, log.incarnation)


class ClusterIdentity:
    """Asks any broker for the cluster's id, on its own thread.

    It sends a plain request for metadata. The client's ``describe_cluster`` ends the process if a controller that was
    just restarted knows of no broker yet: then its answer names no broker and no topic, which librdkafka 2.16 does not
    expect.
    """

    def __init__(self, admin: Callable[[], AdminClient]) -> None:
        self._admin = admin
        self._worker = Worker("mqplug-kafka-cluster")
        self._ended = Event()

    def ask(self, timeout: float) -> Future[str]:
        """Begin to ask, repeatedly until a broker answers or the timeout ends."""
        return self._worker.run(lambda: self._ask(Deadline(timeout)))

    def _ask(self, deadline: Deadline) -> str:
        while True:
            try:
                metadata = self._admin().list_topics(ASKED_TOPIC, timeout=max(0.01, deadline.remaining(ASK_SLICE_S)))
            except KafkaException:
                if self._ended.wait(ASK_PAUSE_S) or deadline.expired:
                    raise
            else:
                return str(metadata.cluster_id)

    def end(self) -> None:
        """End the thread and its open request, without waiting."""
        self._ended.set()
        self._worker.stop()


class Instances:
    """Names consumers after the client's ``instance_id``: the first of a group gets it, the second ``NAME-2``.

    A client that opens its consumers in the same order after a restart gives them the same names. Kafka would fence the
    older one of two that share a name.
    """

    def __init__(self, instance_id: str | None) -> None:
        self._instance_id = instance_id
        self._lock = Lock()
        self._taken: set[tuple[str, str]] = set()

    def take(self, group: str) -> str | None:
        """Return the first name that no open consumer of the group has; None if members are not static."""
        if self._instance_id is None:
            return None
        with self._lock:
            name, number = self._instance_id, 1
            while (group, name) in self._taken:
                number += 1
                name = f"{self._instance_id}-{number}"
            self._taken.add((group, name))
            return name

    def release(self, group: str, name: str | None) -> None:
        """Free the name for the next consumer of the group."""
        if name is not None:
            with self._lock:
                self._taken.discard((group, name))
