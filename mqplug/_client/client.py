"""The client that ``connect`` returns. Its work is done by a session, which the asyncio client has too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mqplug._base.closing import Closable
from mqplug._base.deadline import Deadline
from mqplug._client.client_session import ClientSession
from mqplug._client.queries import advance, check_position, distance
from mqplug._client.topics import altered_topic, check_partitions, new_topic
from mqplug._consume.start_positions import check_start
from mqplug._model.checks import check_missing, whole_number
from mqplug._model.group_description import GroupDescription
from mqplug._model.log import Log
from mqplug._model.names import Matching, TopicNames, check_group, check_partition_list, check_topics
from mqplug._model.position import EARLIEST, LATEST, Bounds, Position, Start, Watermarks
from mqplug._model.retention import Retention
from mqplug._plugins.backend import Backend
from mqplug._plugins.capabilities import Support, support
from mqplug.spi._actions import ClusterInfo, GroupInfo, GroupPosition, Ingest, Ingested, Mode, Staged, TopicInfo

if TYPE_CHECKING:
    from mqplug._client.stage import Stage
    from mqplug._client.transaction import Transaction
    from mqplug._consume.assignment import OnChange
    from mqplug._consume.consumer import Consumer
    from mqplug._consume.retries import Retry
    from mqplug._consume.start_positions import ResetTarget
    from mqplug._model.message import Message
    from mqplug._produce.producer import Producer
    from mqplug._produce.routing import Partitioner, PartitionerName
    from mqplug.spi._descriptor import Capabilities
    from mqplug.spi._drivers import Connection

T = TypeVar("T")

PREFETCH_BYTES = 64 * 1024 * 1024


class Client(Closable):
    """A connection to one backend: opens producers and consumers, and answers queries. Any thread may use it."""

    def __init__(self, backend: Backend, connection: Connection) -> None:
        self._backend = backend
        self._connection = connection
        self._session = ClientSession(backend, connection)

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self._backend.name

    @property
    def capabilities(self) -> Capabilities:
        """The operations and limits of this client, by the backend itself or by the core; ``support`` says which."""
        return self._session.capabilities

    def support(self, capability: str) -> Support:
        """Return the provider of an operation: ``"native"`` the backend, ``"core"`` this library; or ``"absent"``."""
        return support(self._connection.capabilities, capability)

    def health(self, timeout: float | None = 30) -> None:
        """Return if the backend answers. Raise the reason otherwise."""
        deadline = Deadline(timeout)
        with self._session.using("health"):
            self._connection.health(deadline.remaining(3600))

    def unwrap(self, kind: type[T]) -> T | None:
        """Return the native client of this type, or None."""
        if not isinstance(kind, type):
            raise TypeError(f"unwrap() takes a type, not {type(kind).__name__}")
        with self._session.using("unwrap"):
            return self._connection.unwrap(kind)

    # topics ------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        retention: Retention | None = None,
        retention_bytes: int | None = None,
        exist_ok: bool = False,
        options: Mapping[str, Any] | None = None,
        timeout: float | None = 30,
    ) -> None:
        """Create a topic, whose name is legal on every backend.

        ``retention`` is how long messages are kept: a timedelta, or seconds, 60 or more (``math.inf``: for ever); and
        ``retention_bytes`` how much of each partition. ``options`` are the backend's own. With ``exist_ok`` an existing
        topic with the same settings is accepted; other settings raise a ``TopicExists`` that names the difference.
        """
        deadline = Deadline(timeout)
        with self._session.using("create topic"):
            wanted = new_topic(
                topic,
                self.capabilities,
                partitions=partitions,
                retention=retention,
                retention_bytes=retention_bytes,
                options=options,
            )
            self._session.topics.create(wanted, exist_ok, deadline)
        self._session.open_objects.topic_created()

    def alter_topic(
        self,
        topic: str,
        *,
        retention: Retention | None = None,
        retention_bytes: int | None = None,
        options: Mapping[str, Any] | None = None,
        timeout: float | None = 30,
    ) -> TopicInfo:
        """Change settings of a topic, as ``create_topic`` takes them; what is not given stays as it is.

        On return the change is in force and stored: every client's next ``describe`` shows it. Messages that a shorter
        retention no longer keeps are removed as retention removes others. ``options`` are the backend's own.
        """
        deadline = Deadline(timeout)
        with self._session.using("alter topic", needs="alter_topic"):
            wanted = altered_topic(
                topic, self.capabilities, retention=retention, retention_bytes=retention_bytes, options=options
            )
            return self._session.topics.alter(wanted, deadline)

    def delete_topic(self, topic: str, *, timeout: float | None = 30) -> None:
        """Delete a topic with all its messages."""
        deadline = Deadline(timeout)
        with self._session.using("delete topic", needs="delete_topic"):
            self._session.topics.delete(topic, deadline)

    def topics(self, pattern: Matching | None = None, *, timeout: float | None = 30) -> list[str]:
        """Return the names of all topics, sorted, except the backend's own.

        With a pattern, such as ``matching("orders[.].*")``, return those that a consumer of it would read now.
        """
        if pattern is not None and not isinstance(pattern, Matching):
            raise TypeError(f"topics() takes matching(...), not {type(pattern).__name__}")
        deadline = Deadline(timeout)
        with self._session.using("list topics", needs="list_topics"):
            return self._session.topics.names(deadline, pattern)

    def describe(self, topic: str, *, timeout: float | None = 30) -> TopicInfo:
        """Describe a topic: the log of each partition, and its retention, where the backend reports it."""
        deadline = Deadline(timeout)
        with self._session.using("describe topic"):
            return self._session.topics.find(topic, deadline)

    def partitions(self, topic: str, *, timeout: float | None = 30) -> list[Log]:
        """Return the log of each partition of a topic, in order."""
        return list(self.describe(topic, timeout=timeout).logs)

    def add_partitions(self, topic: str, total: int, *, timeout: float | None = 30) -> None:
        """Grow the topic to ``total`` partitions. Existing keys may then map to other partitions."""
        deadline = Deadline(timeout)
        with self._session.using("add partitions", needs="add_partitions"):
            self._session.topics.add_partitions(topic, check_partitions(total, self.capabilities), deadline)
        self._session.open_objects.topic_changed(topic)

    def trim(self, topic: str, before: Mapping[int, Position], *, timeout: float | None = 30) -> None:
        """Remove the messages before a position of each of these partitions."""
        deadline = Deadline(timeout)
        with self._session.using("trim", needs="trim"):
            self._session.topics.trim(topic, before, deadline)

    # producing and consuming -------------------------------------------------------------------------------

    def producer(
        self,
        topic: str | None = None,
        *,
        create: bool = False,
        partitioner: PartitionerName | Partitioner = "murmur2",
        queue_messages: int = 100_000,
        queue_bytes: int = 64 * 1024 * 1024,
        partitions_refresh: float = 60,
        timeout: float | None = 30,
    ) -> Producer:
        """Open a producer for one topic; without a topic, for any that its messages name.

        ``partitioner`` chooses the partition: by the key with ``"murmur2"``, as Kafka's Java client, ``"crc32"``, as
        librdkafka, or ``"pulsar-java"``; with ``"round_robin"``, as murmur2 but in turn for messages without a key; or
        with a function of the key and the number of partitions. At most ``queue_messages`` and ``queue_bytes`` are on
        their way at once. Partitions that other clients add are used within ``partitions_refresh`` seconds.
        """
        from mqplug._produce.producer import Producer

        return Producer(
            self._session.open_producer(
                topic, create=create, partitioner=partitioner, queue_messages=queue_messages, queue_bytes=queue_bytes,
                partitions_refresh=partitions_refresh, timeout=timeout,
            )
        )  # fmt: skip

    def transaction(
        self,
        name: str,
        topic: str | None = None,
        *,
        consumer: Consumer | None = None,
        number: int | None = None,
        partitioner: PartitionerName | Partitioner = "murmur2",
        queue_messages: int = 100_000,
        queue_bytes: int = 64 * 1024 * 1024,
        timeout: float | None = 30,
    ) -> Transaction:
        """Begin a transaction: what is sent in its block, and acked by ``consumer``, is stored as one, or not at all.

        Leaving the block commits; an exception in it aborts. The first transaction of a client takes ``name`` over:
        other clients that used it get ``Fenced`` from then on, and what they left open is aborted.

        ``topic`` is that of messages that name none. ``consumer`` is a member of a group in ordered mode, of this
        client: what it acks in the block is stored by the commit, and comes again after an abort. ``number`` marks the
        step, and the numbers of one name and topic only grow: if this number or a higher one was committed before, the
        step is ``repeated``, and sends nothing. ``partitioner`` is as for a producer. ``timeout`` is for the begin,
        and again for the commit or abort.
        """
        from mqplug._client.transaction import check_transaction

        limits = check_transaction(name, topic, consumer, number, (queue_messages, queue_bytes))
        return self._session.begin_transaction(name, topic, consumer, number, partitioner, limits, timeout)

    def stage(
        self, topic: str, *, partitioner: PartitionerName | Partitioner = "murmur2", timeout: float | None = 30
    ) -> Stage:
        """Open a stage, which holds many messages that no reader sees until ``ingest`` takes them in.

        Leaving its block without ``finish`` discards it. Any process with a client of the same store may write one.
        """
        from mqplug._client.stage import Stage
        from mqplug._produce.routing import Router

        deadline = Deadline(timeout)
        with self._session.using("stage", needs="staged_ingest"):
            info = self._session.topics.find(topic, deadline)
            route = Router(self._session.topics, partitioner, ()).route_of(info)
            driver = self._backend.open_stage(self._connection, info, deadline)
        return Stage(self._session.using, driver, route, self.capabilities)

    def ingest(
        self, staged: Staged | Sequence[Staged], *, writer: str, number: int, timeout: float | None = 30
    ) -> Ingested:
        """Take in staged messages of any process as one: readers see all of them, or none.

        ``writer`` and ``number`` mark them, and the numbers of one writer only grow. A number that was taken in
        already, or a smaller one, takes in nothing, so that a batch written again after a crash is stored once:
        the answer is ``repeated``, and the staged messages are discarded.
        """
        from mqplug._client.stage import check_number, check_staged, check_writer

        deadline = Deadline(timeout)
        wanted = Ingest(check_staged(staged), check_writer(writer), check_number(number))
        with self._session.using("ingest", needs="staged_ingest"):
            return self._backend.ingest(self._connection, wanted, deadline)

    def discard(self, staged: Staged | Sequence[Staged], *, timeout: float | None = 30) -> None:
        """Remove staged messages that are no longer wanted. Those already removed or taken in are ignored."""
        from mqplug._client.stage import check_staged

        deadline = Deadline(timeout)
        unwanted = check_staged(staged)
        with self._session.using("discard", needs="staged_ingest"):
            self._backend.discard(self._connection, unwanted, deadline)

    def consumer(
        self,
        topics: str | Sequence[str] | Matching,
        *,
        group: str | None = None,
        start: Start | None = None,
        until: Start | None = None,
        partitions: Sequence[int] | None = None,
        mode: Mode = "ordered",
        missing: Literal["error", "next"] = "error",
        must_exist: bool = False,
        create: bool = False,
        auto_ack: bool = False,
        max_unacked: int | None = None,
        max_processing: float | None = None,
        retry: Retry | None = None,
        dead_letter: str | None = None,
        on_assigned: OnChange | None = None,
        on_revoked: OnChange | None = None,
        prefetch_bytes: int = PREFETCH_BYTES,
        timeout: float | None = 30,
    ) -> Consumer:
        """Open a consumer of one or many topics.

        Without a ``group`` it sees all partitions, leaves no trace, and must say its ``start``. With one it shares
        them with the other members, as ``mode`` says; ``start`` (EARLIEST by default) applies only where the group
        has no position.

        ``auto_ack`` acks each message when the next one is asked for. ``max_unacked`` is how many messages of a
        partition may be in hand without an ack (in the shared modes: of all). A member that takes nothing for longer
        than ``max_processing`` seconds loses its work to the others; without it, a handler may take any time.
        ``retry`` says when a nacked message comes again, and ``dead_letter`` names the topic it goes to once its
        attempts are used up.
        """
        from mqplug._consume.consumer import Consumer
        from mqplug._consume.opening import ConsumerRequest

        request = ConsumerRequest(
            group=group, start=start, until=until, partitions=partitions, mode=mode, missing=missing,
            must_exist=must_exist, auto_ack=auto_ack, max_unacked=max_unacked, max_processing=max_processing,
            retry=retry, dead_letter=dead_letter, on_assigned=on_assigned, on_revoked=on_revoked,
            prefetch_bytes=prefetch_bytes,
        )  # fmt: skip
        return Consumer(self._session.open_consumer(topics, request, create=create, timeout=timeout))

    def read(
        self,
        topics: str | Sequence[str] | Matching,
        *,
        start: Start = EARLIEST,
        until: Start = LATEST,
        partitions: Sequence[int] | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> Iterator[Message]:
        """Iterate over the messages from ``start`` to the present end, or to ``until``. No group, no trace.

        Where the log is held back before that end, as by an open transaction, the iteration waits: up to ``timeout``
        seconds for each next message, and then raises ``Timeout``.
        """
        consumer = self.consumer(
            topics, start=start, until=until, partitions=partitions, missing=missing, timeout=timeout
        )
        return consumer._read_to_end(timeout)  # noqa: SLF001

    def describe_cluster(self, *, timeout: float | None = 30) -> ClusterInfo:
        """Return the brokers that run, with their addresses; ``Unsupported`` where the backend has none."""
        deadline = Deadline(timeout)
        with self._session.using("describe cluster", needs="multi_node"):
            return self._session.backend.cluster(self._session.connection, deadline)

    # groups ------------------------------------------------------------------------------------------------

    def groups(self, topic: str | None = None, *, timeout: float | None = 30) -> list[GroupInfo]:
        """List the groups that have a position, on this topic or on any, by name."""
        deadline = Deadline(timeout)
        with self._session.using("list groups", needs="groups"):
            return self._session.groups.all(topic, deadline)

    def describe_group(self, group: str, *, timeout: float | None = 30) -> GroupDescription:
        """Describe a group: the topics where it has a position or members, and its members, where the backend reports
        them; ``GroupNotFound`` if it has neither.
        """
        deadline = Deadline(timeout)
        with self._session.using("describe group", needs="groups"):
            return self._session.groups.describe(check_group(group), deadline)

    def positions(self, topic: str, *, group: str, timeout: float | None = 30) -> dict[int, GroupPosition]:
        """Return the group's position in each partition that has one; ``GroupNotFound`` if there is none."""
        deadline = Deadline(timeout)
        with self._session.using("describe group", needs="groups"):
            return self._session.groups.positions(check_group(group), topic, deadline)

    def reset_group(
        self,
        group: str,
        topic: str,
        to: ResetTarget,
        *,
        missing: Literal["error", "next"] = "error",
        must_exist: bool = False,
        timeout: float | None = 30,
    ) -> None:
        """Move a group that has no members; ``ConsumerBusy`` with their names if it has.

        ``EARLIEST``, ``LATEST``, a time and ``last(n)`` move all partitions. An id (which is delivered first), a
        position, or a mapping of partition to position moves what it names, and the others stay where they are. Where
        the group had no position it is placed at EARLIEST, so that no partition is left to a ``start=``. This also
        creates a group before its first consumer; with ``must_exist`` that raises ``GroupNotFound``. A position that
        retention removed raises ``PositionLost``, and nothing moves; with ``missing="next"`` the group moves to the
        first retained message.
        """
        deadline = Deadline(timeout)
        check_missing(missing)
        with self._session.using("reset group", needs="durable_groups"):
            self._session.groups.reset(
                check_group(group), topic, to, must_exist=must_exist, lenient=missing == "next", deadline=deadline
            )

    def delete_group(self, group: str, *, timeout: float | None = 30) -> None:
        """Delete a group on all topics: its next consumer begins at its ``start=``. With members it raises a
        ``ConsumerBusy`` that has their names.
        """
        deadline = Deadline(timeout)
        with self._session.using("delete group", needs="durable_groups"):
            self._session.groups.delete(check_group(group), deadline)

    # queries -----------------------------------------------------------------------------------------------

    @overload
    def watermarks(self, topic: str, *, timeout: float | None = 30) -> dict[int, Watermarks]: ...
    @overload
    def watermarks(self, topic: TopicNames, *, timeout: float | None = 30) -> dict[str, dict[int, Watermarks]]: ...
    def watermarks(
        self, topic: str | TopicNames, *, timeout: float | None = 30
    ) -> dict[int, Watermarks] | dict[str, dict[int, Watermarks]]:
        """Return the watermarks of each partition; for many topics at once, by topic."""
        deadline = Deadline(timeout)
        with self._session.using("watermarks"):
            found = self._session.queries.watermarks(check_topics(topic), deadline)
        return found[topic] if isinstance(topic, str) else found

    def bounds(self, topic: str, *, timeout: float | None = 30) -> dict[int, Bounds]:
        """Return the first and the last retained id of each partition."""
        deadline = Deadline(timeout)
        with self._session.using("bounds"):
            return self._session.queries.bounds(topic, deadline)

    @overload
    def lag(self, topic: str, *, group: str, timeout: float | None = 30) -> dict[int, int]: ...
    @overload
    def lag(self, topic: TopicNames, *, group: str, timeout: float | None = 30) -> dict[str, dict[int, int]]: ...
    def lag(
        self, topic: str | TopicNames, *, group: str, timeout: float | None = 30
    ) -> dict[int, int] | dict[str, dict[int, int]]:
        """Estimate, for each partition, the messages that the group has yet to read; 0 only when there are none."""
        deadline = Deadline(timeout)
        with self._session.using("lag", needs="groups"):
            found = self._session.queries.lag(check_topics(topic), check_group(group), deadline)
        return found[topic] if isinstance(topic, str) else found

    @overload
    def resolve(
        self,
        topic: str,
        start: Start,
        *,
        partitions: Sequence[int] | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> dict[int, Position]: ...
    @overload
    def resolve(
        self,
        topic: TopicNames,
        start: Start,
        *,
        partitions: Sequence[int] | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> dict[str, dict[int, Position]]: ...
    def resolve(
        self,
        topic: str | TopicNames,
        start: Start,
        *,
        partitions: Sequence[int] | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> dict[int, Position] | dict[str, dict[int, Position]]:
        """Return the position that a start means now in each partition, or in ``partitions``; of many topics, by topic.

        Nothing is moved, and no trace is left. ``before(id)``, ``after(id)`` and a position are those of their own
        partition alone: the answer has one entry. If retention removed messages behind one, that is ``PositionLost``;
        with ``missing="next"`` it is the position of the first retained message.
        """
        deadline = Deadline(timeout)
        check_start(start)
        check_missing(missing)
        check_partition_list(partitions)
        with self._session.using("resolve"):
            names, lenient = check_topics(topic), missing == "next"
            found = self._session.queries.resolve(names, start, partitions, lenient=lenient, deadline=deadline)
        return found[topic] if isinstance(topic, str) else found

    def advance(self, position: Position, count: int) -> Position:
        """Return the position ``count`` messages further along its log, which may lie beyond the end. No I/O.

        At most ``count`` messages lie between the two, and exactly so many where ids have no gaps, as those that
        compaction or transactions leave. The result lies behind ``position`` if ``count`` is more than 0.
        """
        check_position("position", position)
        whole_number("count", count, 0)
        with self._session.using("advance", needs="advance"):
            return advance(self._connection, position, count)

    def distance(self, start: Position, until: Position) -> int:
        """Return how many messages lie between two positions of one log at most; 0 if ``until`` is not behind
        ``start``. No I/O.

        The number is exact where ids have no gaps. Positions of different logs are a ``TypeError``.
        """
        check_position("start", start)
        check_position("until", until)
        with self._session.using("distance", needs="advance"):
            return distance(self._connection, start, until)

    # ending ------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = 30) -> None:
        """Close consumers, then producers, then the connection, within one deadline. May be called twice."""
        self._session.close(timeout)

    def __repr__(self) -> str:
        return repr(self._session)


def session_of(client: Client) -> ClientSession:
    """Return the session of a client, for the asyncio client over it."""
    return client._session  # noqa: SLF001
