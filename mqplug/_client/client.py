"""The client that ``connect`` returns. It delegates to a session, which the asyncio client shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mqplug._base.closing import Closable
from mqplug._client.client_session import ClientSession
from mqplug._client.queries import advance, check_position, distance
from mqplug._client.topics import altered_topic, check_partitions, new_topic
from mqplug._consume.start_positions import check_start
from mqplug._model.checks import Retention, check_missing, whole_number
from mqplug._model.log import GroupDescription, Log
from mqplug._model.names import Matching, TopicNames, check_group, check_partition_list, check_topic, check_topics
from mqplug._model.position import EARLIEST, LATEST, Bounds, Position, Start, Watermarks
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

T = TypeVar("T")

PREFETCH_BYTES = 64 * 1024 * 1024


class Client(Closable):
    """A connection to one backend: opens producers and consumers, and answers queries. Any thread may use it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._connection = backend.connection
        self._session = ClientSession(backend)

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self._backend.name

    @property
    def capabilities(self) -> Capabilities:
        """The operations and limits of this client. ``support`` reports which side provides one."""
        return self._session.capabilities

    def support(self, capability: str) -> Support:
        """Return the provider of an operation: ``"native"`` the backend, ``"core"`` this library, or ``"absent"``."""
        return support(self._connection.capabilities, capability)

    def health(self, timeout: float | None = 30) -> None:
        """Check that the backend answers. Raise the error if it does not."""
        with self._session.using("health", timeout) as deadline:
            self._connection.health(deadline.remaining(3600))

    def unwrap(self, kind: type[T]) -> T | None:
        """Return the vendor's client object of this type, or None."""
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
        """Create a topic.

        :param topic: its name, which must be legal on every backend.
        :param partitions: the number of partitions; 1 by default.
        :param retention: how long messages are kept: a timedelta, or a number of seconds, 60 or more (``math.inf``:
            forever). The backend's default if not given.
        :param retention_bytes: how many bytes of each partition are kept. The backend's default if not given.
        :param exist_ok: accept an existing topic with the same settings; other settings raise a ``TopicExists`` that
            names the difference. False by default: any existing topic raises ``TopicExists``.
        :param options: the backend's own settings.
        :param timeout: seconds to wait, 30 by default; None waits without a limit.
        """
        with self._session.using("create topic", timeout) as deadline:
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
        """Change settings of a topic, as ``create_topic`` takes them. Settings that are not given stay unchanged.

        On return the change is in force and stored: every client's next ``describe`` shows it. Messages that exceed a
        shorter retention are removed by the backend's usual cleanup. ``options`` are the backend's own.
        """
        with self._session.using("alter topic", timeout, needs="alter_topic") as deadline:
            wanted = altered_topic(
                topic, self.capabilities, retention=retention, retention_bytes=retention_bytes, options=options
            )
            return self._backend.alter_topic(wanted, deadline)

    def delete_topic(self, topic: str, *, timeout: float | None = 30) -> None:
        """Delete a topic with all its messages."""
        with self._session.using("delete topic", timeout, needs="delete_topic") as deadline:
            self._backend.delete_topic(check_topic(topic), deadline)

    def topics(self, pattern: Matching | None = None, *, timeout: float | None = 30) -> list[str]:
        """Return the names of all topics, sorted, except the backend's own.

        With a pattern, such as ``matching("orders[.].*")``, return the topics that its consumer would read now.
        """
        if pattern is not None and not isinstance(pattern, Matching):
            raise TypeError(f"topics() takes matching(...), not {type(pattern).__name__}")
        with self._session.using("list topics", timeout, needs="list_topics") as deadline:
            return self._session.topics.names(deadline, pattern)

    def describe(self, topic: str, *, timeout: float | None = 30) -> TopicInfo:
        """Describe a topic: the log of each partition, and its retention, where the backend reports it."""
        with self._session.using("describe topic", timeout) as deadline:
            return self._session.topics.find(topic, deadline)

    def partitions(self, topic: str, *, timeout: float | None = 30) -> list[Log]:
        """Return the log of each partition of a topic, in order."""
        return list(self.describe(topic, timeout=timeout).logs)

    def add_partitions(self, topic: str, total: int, *, timeout: float | None = 30) -> None:
        """Grow the topic to ``total`` partitions. Existing keys may then map to other partitions."""
        with self._session.using("add partitions", timeout, needs="add_partitions") as deadline:
            self._session.topics.add_partitions(topic, check_partitions(total, self.capabilities), deadline)
        self._session.open_objects.topic_changed(topic)

    def trim(self, topic: str, before: Mapping[int, Position], *, timeout: float | None = 30) -> None:
        """Remove the messages before a position of each of these partitions."""
        with self._session.using("trim", timeout, needs="trim") as deadline:
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
        """Open a producer.

        :param topic: the topic to send to. Without one, each message names its own.
        :param create: create the topic, with one partition, if it is missing. False by default.
        :param partitioner: chooses the partition of a message. By its key: ``"murmur2"`` (the default) as Kafka's Java
            client does, ``"crc32"`` as librdkafka does, or ``"pulsar-java"`` as Pulsar's does. ``"round_robin"`` is
            murmur2, with messages without a key taking turns. Or a function of the key and the number of partitions.
        :param queue_messages: the most messages that are on their way at once; 100,000 by default.
        :param queue_bytes: the most bytes that are on their way at once; 64 MiB by default.
        :param partitions_refresh: partitions that other clients add are used within this many seconds; 60 by default.
        :param timeout: seconds to wait, 30 by default; None waits without a limit.
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
        """Begin a transaction: the sends of its block, and the acks of ``consumer``, are stored as one, or not at all.

        Leaving the block commits; an exception in it aborts.

        :param name: the transaction's name. The first transaction of a client takes the name over: other clients that
            used it get ``Fenced`` from then on, and their open transactions are aborted.
        :param topic: the topic of messages that name none.
        :param consumer: a member of a group in ordered mode, opened by this client. Its acks in the block are stored by
            the commit; after an abort their messages are delivered again.
        :param number: marks the step; needs a topic. The numbers of one name and topic only grow: if this number or a
            higher one was committed before, the step is ``repeated``, and sends nothing.
        :param partitioner: as for a producer.
        :param queue_messages: the most messages that are on their way at once; 100,000 by default.
        :param queue_bytes: the most bytes that are on their way at once; 64 MiB by default.
        :param timeout: seconds for the begin, and again for the commit or abort; 30 by default, None: no limit.
        """
        from mqplug._client.transaction import check_transaction

        limits = check_transaction(name, topic, consumer, number, (queue_messages, queue_bytes))
        return self._session.begin_transaction(name, topic, consumer, number, partitioner, limits, timeout)

    def stage(
        self, topic: str, *, partitioner: PartitionerName | Partitioner = "murmur2", timeout: float | None = 30
    ) -> Stage:
        """Open a stage, which holds messages that no reader sees until ``ingest`` takes them in.

        Leaving its block without ``finish`` discards it. Any process with a client of the same store may write one.
        """
        from mqplug._client.stage import Stage
        from mqplug._produce.routing import Router

        with self._session.using("stage", timeout, needs="staged_ingest") as deadline:
            info = self._session.topics.find(topic, deadline)
            route = Router(self._session.topics, partitioner, ()).route_of(info)
            driver = self._backend.open_stage(info, deadline)
        return Stage(self._session.using, driver, route, self.capabilities)

    def ingest(
        self, staged: Staged | Sequence[Staged], *, writer: str, number: int, timeout: float | None = 30
    ) -> Ingested:
        """Take in staged messages of any process as one: readers see all of them, or none.

        ``writer`` and ``number`` mark them, and the numbers of one writer only grow. If this number or a higher one was
        taken in before, nothing is stored: the result is ``repeated``, and the staged messages are discarded. So a
        batch that is written again after a crash is stored once.
        """
        from mqplug._client.stage import check_number, check_staged, check_writer

        wanted = Ingest(check_staged(staged), check_writer(writer), check_number(number))
        with self._session.using("ingest", timeout, needs="staged_ingest") as deadline:
            return self._backend.ingest(wanted, deadline)

    def discard(self, staged: Staged | Sequence[Staged], *, timeout: float | None = 30) -> None:
        """Remove unwanted staged messages. Ignore messages that were already removed or taken in."""
        from mqplug._client.stage import check_staged

        unwanted = check_staged(staged)
        with self._session.using("discard", timeout, needs="staged_ingest") as deadline:
            self._backend.discard(unwanted, deadline)

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

        :param topics: a topic, several, or a pattern made by ``matching``.
        :param group: the group to join, whose members share the partitions. Without one, the consumer reads all
            partitions and leaves no trace.
        :param start: where to begin. Required without a group. With one it applies only to partitions where the group
            has no position; EARLIEST by default.
        :param until: where to end, as found when the consumer opens. By default it never ends. Not for the shared
            modes.
        :param partitions: the partitions to read, without a group; all by default.
        :param mode: how members share the work. ``"ordered"`` (the default): each partition has one member.
            ``"exclusive"``: one member has all partitions. ``"shared"``: each message goes to any member.
            ``"key_shared"``: the messages of one key go to one member at a time, in order.
        :param missing: whether a start that retention removed raises ``PositionLost`` (``"error"``, the default) or
            reading begins at the first retained message (``"next"``).
        :param must_exist: raise ``GroupNotFound`` if the group has no position. False by default.
        :param create: create missing topics, with one partition each. False by default.
        :param auto_ack: ack each message when the next one is requested. False by default; not for the shared modes.
        :param max_unacked: the most unacked messages in hand, per partition; in the shared modes, of all partitions
            together. No limit by default.
        :param max_processing: a member that takes no message for longer than this many seconds loses its work to the
            others. By default a handler may take any time.
        :param retry: when a nacked message is delivered again, and how often; forever by default.
        :param dead_letter: the topic for messages whose attempts are used up. Needs ``retry``.
        :param on_assigned: called with the logs that this member gets.
        :param on_revoked: called with the logs that this member gives up, before they move, or has lost.
        :param prefetch_bytes: the most bytes that are fetched ahead; 64 MiB by default.
        :param timeout: seconds to wait, 30 by default; None waits without a limit.
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

        If the log is held back before that end, for example by an open transaction, the iteration waits up to
        ``timeout`` seconds for each next message, then raises ``Timeout``.

        :param topics: a topic, several, or a pattern made by ``matching``.
        :param start: where to begin; EARLIEST by default.
        :param until: where to end, as found at the call; LATEST by default.
        :param partitions: the partitions to read; all by default.
        :param missing: whether a start that retention removed raises ``PositionLost`` (``"error"``, the default) or
            reading begins at the first retained message (``"next"``).
        :param timeout: seconds to open, and to wait for each next message; 30 by default, None: no limit.
        """
        consumer = self.consumer(
            topics, start=start, until=until, partitions=partitions, missing=missing, timeout=timeout
        )
        return consumer._read_to_end(timeout)  # noqa: SLF001

    def describe_cluster(self, *, timeout: float | None = 30) -> ClusterInfo:
        """Return the running brokers with their addresses. Raises ``Unsupported`` if the backend has none."""
        with self._session.using("describe cluster", timeout, needs="multi_node") as deadline:
            return self._backend.cluster(deadline)

    # groups ------------------------------------------------------------------------------------------------

    def groups(self, topic: str | None = None, *, timeout: float | None = 30) -> list[GroupInfo]:
        """List the groups that have a position on this topic, or on any, sorted by name."""
        with self._session.using("list groups", timeout, needs="groups") as deadline:
            return self._session.groups.all(topic, deadline)

    def describe_group(self, group: str, *, timeout: float | None = 30) -> GroupDescription:
        """Describe a group: its topics, and its members where the backend reports them.

        Its topics are those where it has a position or members. With neither it raises ``GroupNotFound``.
        """
        with self._session.using("describe group", timeout, needs="groups") as deadline:
            return self._session.groups.describe(check_group(group), deadline)

    def positions(self, topic: str, *, group: str, timeout: float | None = 30) -> dict[int, GroupPosition]:
        """Return the group's position in each partition that has one. Raises ``GroupNotFound`` if none has."""
        with self._session.using("describe group", timeout, needs="groups") as deadline:
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
        """Move a group without members, or create one before its first consumer.

        A group with members raises a ``ConsumerBusy`` that names them. Partitions where the group has no position are
        placed at EARLIEST, so that none depends on a ``start=``.

        :param group: the group's name.
        :param topic: the topic on which it moves.
        :param to: ``EARLIEST``, ``LATEST``, a time and ``last(n)`` move all partitions. An id (which is delivered
            first), a position, or a mapping of partition to position moves the partitions that it names; the others
            stay.
        :param missing: whether a position that retention removed raises ``PositionLost``, and nothing moves
            (``"error"``, the default), or the group moves to the first retained message (``"next"``).
        :param must_exist: raise ``GroupNotFound`` instead of creating the group. False by default.
        :param timeout: seconds to wait, 30 by default; None waits without a limit.
        """
        check_missing(missing)
        with self._session.using("reset group", timeout, needs="durable_groups") as deadline:
            self._session.groups.reset(
                check_group(group), topic, to, must_exist=must_exist, lenient=missing == "next", deadline=deadline
            )

    def delete_group(self, group: str, *, timeout: float | None = 30) -> None:
        """Delete a group on all topics. Its next consumer begins at ``start=``.

        A group with members raises a ``ConsumerBusy`` that names them.
        """
        with self._session.using("delete group", timeout, needs="durable_groups") as deadline:
            self._session.groups.delete(check_group(group), deadline)

    # queries -----------------------------------------------------------------------------------------------

    @overload
    def watermarks(self, topic: str, *, timeout: float | None = 30) -> dict[int, Watermarks]: ...
    @overload
    def watermarks(self, topic: TopicNames, *, timeout: float | None = 30) -> dict[str, dict[int, Watermarks]]: ...
    def watermarks(
        self, topic: str | TopicNames, *, timeout: float | None = 30
    ) -> dict[int, Watermarks] | dict[str, dict[int, Watermarks]]:
        """Return the watermarks of each partition; given many topics, by topic."""
        with self._session.using("watermarks", timeout) as deadline:
            found = self._session.queries.watermarks(check_topics(topic), deadline)
        return found[topic] if isinstance(topic, str) else found

    def bounds(self, topic: str, *, timeout: float | None = 30) -> dict[int, Bounds]:
        """Return the first and the last retained id of each partition."""
        with self._session.using("bounds", timeout) as deadline:
            return self._session.queries.bounds(topic, deadline)

    @overload
    def lag(self, topic: str, *, group: str, timeout: float | None = 30) -> dict[int, int]: ...
    @overload
    def lag(self, topic: TopicNames, *, group: str, timeout: float | None = 30) -> dict[str, dict[int, int]]: ...
    def lag(
        self, topic: str | TopicNames, *, group: str, timeout: float | None = 30
    ) -> dict[int, int] | dict[str, dict[int, int]]:
        """Estimate how many messages the group has yet to read in each partition. 0 means none, exactly."""
        with self._session.using("lag", timeout, needs="groups") as deadline:
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
        """Return the position that a start resolves to now in each partition; given many topics, by topic.

        Moves nothing and leaves no trace. ``before(id)``, ``after(id)`` and a position resolve in their own partition
        only: the result has one entry.

        :param topic: a topic, or several.
        :param start: the start to resolve.
        :param partitions: the partitions to resolve; all by default.
        :param missing: what happens if retention removed messages after the start: ``PositionLost`` (``"error"``, the
            default), or the position of the first retained message is returned (``"next"``).
        :param timeout: seconds to wait, 30 by default; None waits without a limit.
        """
        check_start(start)
        check_missing(missing)
        check_partition_list(partitions)
        with self._session.using("resolve", timeout) as deadline:
            names, lenient = check_topics(topic), missing == "next"
            found = self._session.queries.resolve(names, start, partitions, lenient=lenient, deadline=deadline)
        return found[topic] if isinstance(topic, str) else found

    def advance(self, position: Position, count: int) -> Position:
        """Return the position ``count`` messages further along its log, which may be past the end. No I/O.

        At most ``count`` messages lie between the two; exactly ``count`` if the ids have no gaps, which compaction and
        transactions leave. The result is after ``position`` if ``count`` is more than 0.
        """
        check_position("position", position)
        whole_number("count", count, 0)
        with self._session.using("advance", needs="advance"):
            return advance(self._backend, position, count)

    def distance(self, start: Position, until: Position) -> int:
        """Return the most messages that lie between two positions of one log. No I/O.

        The number is exact if the ids have no gaps, and 0 if ``until`` is not after ``start``. Positions of different
        logs raise ``TypeError``.
        """
        check_position("start", start)
        check_position("until", until)
        with self._session.using("distance", needs="advance"):
            return distance(self._backend, start, until)

    # ending ------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = 30) -> None:
        """Close consumers, then producers, then the connection, within one deadline. May be called twice."""
        self._session.close(timeout)

    def __repr__(self) -> str:
        return repr(self._session)


def session_of(client: Client) -> ClientSession:
    """Return the session of a client, for the asyncio client over it."""
    return client._session  # noqa: SLF001
