"""The client: what ``connect`` returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mqplug._base.closing import Closable, close_native
from mqplug._base.deadline import Deadline
from mqplug._client.groups import Groups
from mqplug._client.open_objects import OpenObjects
from mqplug._client.queries import Queries
from mqplug._client.stage import Stage, check_number, check_staged, check_writer
from mqplug._client.topics import Topics, check_partitions, new_topic
from mqplug._consume.assignment import OnChange
from mqplug._consume.consumer import Consumer
from mqplug._consume.opening import ConsumerRequest, open_consumer, own_dead_letters
from mqplug._consume.retry_policy import Retry
from mqplug._consume.start_positions import ResetTarget
from mqplug._model.checks import check_missing
from mqplug._model.errors import Closed, Unsupported
from mqplug._model.log import Log
from mqplug._model.message import Message
from mqplug._model.names import Names, check_group, check_topics
from mqplug._model.position import EARLIEST, LATEST, Position, Start
from mqplug._model.retention import Retention
from mqplug._model.watermarks import Bounds, Watermarks
from mqplug._plugins.backend import Backend
from mqplug._plugins.capabilities import Support, public, support
from mqplug._produce.partitioners import Partitioner, PartitionerName
from mqplug._produce.producer import Producer
from mqplug._produce.queue import check_limits
from mqplug._produce.routing import Router
from mqplug.spi._actions import GroupInfo, GroupPosition, Ingest, Ingested, Mode, ProducerOptions, Staged, TopicInfo

if TYPE_CHECKING:
    from mqplug.spi._descriptor import Capabilities
    from mqplug.spi._drivers import Connection

T = TypeVar("T")

PREFETCH_BYTES = 64 * 1024 * 1024


class Client(Closable):
    """A connection to one backend: makes producers and consumers, and answers questions. Any thread may use it."""

    def __init__(self, backend: Backend, connection: Connection) -> None:
        super().__init__()
        self._backend = backend
        self._connection = connection
        self._topics = Topics(backend, connection)
        self._groups = Groups(backend, connection, self._topics)
        self._queries = Queries(backend, connection, self._topics, self._groups)
        self._open_objects = OpenObjects()
        self._holds_something = True

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self._backend.name

    @property
    def capabilities(self) -> Capabilities:
        """What can be done here, by the backend itself or by the core; ``support`` says which."""
        return public(self._connection.capabilities)

    def support(self, capability: str) -> Support:
        """Who provides an operation or property: ``"native"`` the backend, ``"core"`` this library; or ``"absent"``."""
        return support(self._connection.capabilities, capability)

    def health(self, timeout: float | None = 30) -> None:
        """Return if the backend answers; otherwise raise why not."""
        deadline = Deadline(timeout)
        with self._open("health"):
            self._connection.health(deadline.remaining(3600))

    def unwrap(self, kind: type[T]) -> T | None:
        """The native client of this type, or None."""
        if not isinstance(kind, type):
            raise TypeError(f"unwrap() takes a type, not {type(kind).__name__}")
        with self._open("unwrap"):
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
        topic of the same settings will do; one with others is a ``TopicExists`` that names the difference.
        """
        deadline = Deadline(timeout)
        with self._open("create topic"):
            wanted = new_topic(
                topic,
                self.capabilities,
                partitions=partitions,
                retention=retention,
                retention_bytes=retention_bytes,
                options=options,
            )
            self._topics.create(wanted, exist_ok, deadline)

    def delete_topic(self, topic: str, *, timeout: float | None = 30) -> None:
        """Delete a topic with all its messages."""
        deadline = Deadline(timeout)
        with self._open("delete topic", needs="delete_topic"):
            self._topics.delete(topic, deadline)

    def topics(self, *, timeout: float | None = 30) -> list[str]:
        """The names of all topics, sorted, but for the backend's own."""
        deadline = Deadline(timeout)
        with self._open("list topics", needs="list_topics"):
            return self._topics.names(deadline)

    def describe(self, topic: str, *, timeout: float | None = 30) -> TopicInfo:
        """A topic as it stands: the log of each partition, and what it retains, where the backend tells."""
        deadline = Deadline(timeout)
        with self._open("describe topic"):
            return self._topics.find(topic, deadline)

    def partitions(self, topic: str, *, timeout: float | None = 30) -> list[Log]:
        """The log of each partition of a topic, in order."""
        return list(self.describe(topic, timeout=timeout).logs)

    def add_partitions(self, topic: str, total: int, *, timeout: float | None = 30) -> None:
        """Have so many partitions in all, which is more than there are. Keys move to other partitions by this."""
        deadline = Deadline(timeout)
        with self._open("add partitions", needs="add_partitions"):
            self._topics.add_partitions(topic, check_partitions(total, self.capabilities), deadline)
        self._open_objects.topic_changed(topic)

    def trim(self, topic: str, before: Mapping[int, Position], *, timeout: float | None = 30) -> None:
        """Remove what lies before a position of each of these partitions."""
        deadline = Deadline(timeout)
        with self._open("trim", needs="trim"):
            self._topics.trim(topic, before, deadline)

    # producing and consuming -------------------------------------------------------------------------------

    def producer(
        self,
        topic: str | None = None,
        *,
        create: bool = False,
        partitioner: PartitionerName | Partitioner = "murmur2",
        queue_messages: int = 100_000,
        queue_bytes: int = 64 * 1024 * 1024,
        timeout: float | None = 30,
    ) -> Producer:
        """A producer for one topic; without a topic, for any that its messages name.

        ``partitioner`` says where messages go: by their key as ``"murmur2"``, Kafka's, ``"pulsar-java"``, or
        ``"round_robin"``, which is murmur2 but takes those without a key in turn; or a function of key and number of
        partitions. No more messages and bytes than the queue takes are on their way at once.
        """
        deadline = Deadline(timeout)
        limits = check_limits(queue_messages, queue_bytes)
        with self._open("open a producer"):
            router = Router(self._topics, partitioner, self._backend.descriptor.partitioners)
            route = None if topic is None else router.route_of(self._topics.find_or_create(topic, create, deadline))
            options = ProducerOptions(partitioner=router.name, queue_bytes=queue_bytes)
            driver = self._backend.open_producer(self._connection, options, deadline)
            producer = Producer(
                self._backend, driver, topic, router, limits, self.capabilities, self._open_objects.forget
            )
            if route is not None:
                producer._know(route)
        return self._adopt(producer)

    def stage(
        self, topic: str, *, partitioner: PartitionerName | Partitioner = "murmur2", timeout: float | None = 30
    ) -> Stage:
        """A stage, for writing many messages where nobody reads them until ``ingest`` takes them in.

        Leaving its block without ``finish`` discards it. Any process that has a client of the same store may write one.
        """
        deadline = Deadline(timeout)
        with self._open("stage", needs="staged_ingest"):
            info = self._topics.find(topic, deadline)
            route = Router(self._topics, partitioner, ()).route_of(info)
            driver = self._backend.open_stage(self._connection, info, deadline)
        return Stage(self._open, driver, route, self.capabilities)

    def ingest(
        self, staged: Staged | Sequence[Staged], *, writer: str, number: int, timeout: float | None = 30
    ) -> Ingested:
        """Take in what was staged, by anybody, as one: readers see all of it, or nothing.

        ``writer`` and ``number`` mark it, and the numbers of one writer only grow. A number that was taken in already,
        or a smaller one, takes in nothing more, so that a batch that is written again after a crash is stored once:
        the answer is ``repeated``, and what was staged is discarded.
        """
        deadline = Deadline(timeout)
        wanted = Ingest(check_staged(staged), check_writer(writer), check_number(number))
        with self._open("ingest", needs="staged_ingest"):
            return self._backend.ingest(self._connection, wanted, deadline)

    def discard(self, staged: Staged | Sequence[Staged], *, timeout: float | None = 30) -> None:
        """Remove what was staged and is not wanted any more. What is gone already, or was taken in, is passed over."""
        deadline = Deadline(timeout)
        unwanted = check_staged(staged)
        with self._open("discard", needs="staged_ingest"):
            self._backend.discard(self._connection, unwanted, deadline)

    def consumer(
        self,
        topics: str | Sequence[str],
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
        """A consumer of one or many topics.

        Without a ``group`` it sees all partitions, leaves no trace, and must say its ``start``. With one it shares
        them with the other members, as ``mode`` says; ``start`` (EARLIEST by default) applies only where the group
        has no position.

        ``auto_ack`` acks each message when the next one is asked for. ``max_unacked`` is how many messages of a
        partition may be in hand without an ack (in the shared modes: of all). A member that takes nothing for longer
        than ``max_processing`` seconds loses its work to the others; without it, a handler may take as long as it
        likes. ``retry`` says when a message that was given back comes again, and ``dead_letter`` to which topic it
        goes when its attempts are used up.
        """
        deadline = Deadline(timeout)
        wanted = ConsumerRequest(
            group=group, start=start, until=until, partitions=partitions, mode=mode, missing=missing,
            must_exist=must_exist, auto_ack=auto_ack, max_unacked=max_unacked, max_processing=max_processing,
            retry=retry, dead_letter=dead_letter, on_assigned=on_assigned, on_revoked=on_revoked,
            prefetch_bytes=prefetch_bytes,
        )  # fmt: skip
        names = check_topics(topics)
        wanted.check(names, self.capabilities, self.backend)
        with self._open("open a consumer"):
            logs = self._topics.logs(names, partitions, create, deadline)
            letters = None
            if dead_letter is not None:
                letters = self._open_dead_letters(dead_letter, logs, create, deadline)
            try:
                made = open_consumer(
                    self._backend, self._connection, logs, wanted, deadline, letters, self._open_objects.forget
                )
            except BaseException:
                if letters is not None:
                    letters.close(0)
                raise
        return self._adopt(made)

    def _open_dead_letters(self, topic: str, logs: Sequence[Log], create: bool, deadline: Deadline) -> Producer:
        """A producer for the dead letters of these logs; their own topic may have another spelling."""
        if not set(logs).isdisjoint(self._topics.find_or_create(topic, create, deadline).logs):
            raise own_dead_letters(topic)
        return self.producer(topic, timeout=None if deadline.timeout is None else deadline.remaining())

    def read(
        self,
        topics: str | Sequence[str],
        *,
        start: Start = EARLIEST,
        until: Start = LATEST,
        partitions: Sequence[int] | None = None,
        missing: Literal["error", "next"] = "error",
        timeout: float | None = 30,
    ) -> Iterator[Message]:
        """The messages from ``start`` to what was stored when this was called, or to ``until``. No group, no trace."""
        consumer = self.consumer(
            topics, start=start, until=until, partitions=partitions, missing=missing, timeout=timeout
        )
        return _drain(consumer)

    # groups ------------------------------------------------------------------------------------------------

    def groups(self, topic: str | None = None, *, timeout: float | None = 30) -> list[GroupInfo]:
        """The groups that have a position, on this topic or on any, by name."""
        deadline = Deadline(timeout)
        with self._open("list groups", needs="groups"):
            return self._groups.all(topic, deadline)

    def positions(self, topic: str, *, group: str, timeout: float | None = 30) -> dict[int, GroupPosition]:
        """Where a group stands, for each partition where it has a position; ``GroupNotFound`` if there is none."""
        deadline = Deadline(timeout)
        with self._open("describe group", needs="groups"):
            return self._groups.positions(check_group(group), topic, deadline)

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
        """Move a group that has no members; ``ConsumerBusy`` if it has.

        ``EARLIEST``, ``LATEST``, a time and ``last(n)`` move all partitions. An id (which is delivered first), a
        position, or a mapping of partition to position moves what it names, and the others stay where they are. Where
        the group had no position it is placed at EARLIEST, so that no partition is left to a ``start=``: this is also
        how a group is made before anybody consumes; with ``must_exist`` that is ``GroupNotFound``. What retention
        removed is ``PositionLost``, and nothing moves; with ``missing="next"`` the first message that is left will do.
        """
        deadline = Deadline(timeout)
        check_missing(missing)
        with self._open("reset group", needs="durable_groups"):
            self._groups.reset(
                check_group(group), topic, to, must_exist=must_exist, lenient=missing == "next", deadline=deadline
            )

    def delete_group(self, group: str, *, timeout: float | None = 30) -> None:
        """Forget a group on all topics: the next to open it begins at its ``start=``. ``ConsumerBusy`` with members."""
        deadline = Deadline(timeout)
        with self._open("delete group", needs="durable_groups"):
            self._groups.delete(check_group(group), deadline)

    # questions ---------------------------------------------------------------------------------------------

    @overload
    def watermarks(self, topic: str, *, timeout: float | None = 30) -> dict[int, Watermarks]: ...
    @overload
    def watermarks(self, topic: Names, *, timeout: float | None = 30) -> dict[str, dict[int, Watermarks]]: ...
    def watermarks(
        self, topic: str | Names, *, timeout: float | None = 30
    ) -> dict[int, Watermarks] | dict[str, dict[int, Watermarks]]:
        """What each partition retains; for many topics at once, by topic."""
        deadline = Deadline(timeout)
        with self._open("watermarks"):
            found = self._queries.watermarks(check_topics(topic), deadline)
        return found[topic] if isinstance(topic, str) else found

    def bounds(self, topic: str, *, timeout: float | None = 30) -> dict[int, Bounds]:
        """The first and the last retained id of each partition."""
        deadline = Deadline(timeout)
        with self._open("bounds"):
            return self._queries.bounds(topic, deadline)

    @overload
    def lag(self, topic: str, *, group: str, timeout: float | None = 30) -> dict[int, int]: ...
    @overload
    def lag(self, topic: Names, *, group: str, timeout: float | None = 30) -> dict[str, dict[int, int]]: ...
    def lag(
        self, topic: str | Names, *, group: str, timeout: float | None = 30
    ) -> dict[int, int] | dict[str, dict[int, int]]:
        """For each partition: about how many messages the group has before it; 0 only when it has none."""
        deadline = Deadline(timeout)
        with self._open("lag", needs="groups"):
            found = self._queries.lag(check_topics(topic), check_group(group), deadline)
        return found[topic] if isinstance(topic, str) else found

    # inside ------------------------------------------------------------------------------------------------

    def _require(self, capability: str, operation: str) -> None:
        if not getattr(self.capabilities, capability):
            raise Unsupported(capability, backend=self.backend, operation=operation)

    def _open(self, operation: str, *, needs: str | None = None) -> AbstractContextManager[None]:
        """What every call does first; within, errors learn where they happened."""
        self._fork.check()
        if self._closed:
            raise Closed(f"{self!r} was closed", backend=self.backend, operation=operation, fix="Connect again")
        if needs is not None:
            self._require(needs, operation)
        return self._backend.context(operation)

    def _adopt(self, child: OpenObject) -> OpenObject:
        if not self._open_objects.adopt(child):
            child.close(0)
            raise Closed(f"{self!r} was closed meanwhile", backend=self.backend)
        return child

    # ending ------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = 30) -> None:
        """Close consumers, then producers, then the connection, within one deadline. May be called twice."""
        deadline = Deadline(timeout)
        with self._closing_once(deadline) as mine:
            if not mine:
                return
            self._open_objects.shut()
            failures = self._open_objects.close(deadline)
            of_driver = close_native(f"the connection to {self.backend}", self._connection.close, deadline)
            if failures:
                raise failures[0]
            if of_driver is not None:
                raise of_driver.at(backend=self.backend, operation="close")

    def __repr__(self) -> str:
        return f"<Client {self.backend}{', closed' if self._closed else ''}>"


OpenObject = TypeVar("OpenObject", Producer, Consumer)


def _drain(consumer: Consumer) -> Iterator[Message]:
    with consumer:
        yield from consumer
