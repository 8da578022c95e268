"""The client: what ``connect`` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mqplug._backend import Backend
from mqplug._closing import Closable, close_native
from mqplug._consumer import Consumer
from mqplug._deadline import Deadline
from mqplug._errors import Closed, Error, GroupNotFound, TopicExists, TopicNotFound, Unsupported
from mqplug._holdings import Holdings
from mqplug._keeper import Keeper
from mqplug._log import Log
from mqplug._message import Message
from mqplug._partitioners import PARTITIONERS
from mqplug._position import EARLIEST, LATEST, After, Before, Position, Start
from mqplug._producer import Producer, Route
from mqplug._starts import check_log, check_start, everywhere, group_start, refuse_lost, resolve
from mqplug._topics import check_group, check_new_topic, check_topic
from mqplug._watermarks import Bounds, Watermarks
from mqplug.spi._actions import ConsumerOptions, CreateTopic, ProducerOptions, TopicInfo

if TYPE_CHECKING:
    from mqplug.spi._descriptor import Capabilities
    from mqplug.spi._drivers import Connection

T = TypeVar("T")
OnChange = Callable[[Sequence[Log]], None]

PREFETCH = 64 * 1024 * 1024


class Client(Closable):
    """A connection to one backend: makes producers and consumers, and answers questions. Any thread may use it."""

    def __init__(self, backend: Backend, connection: Connection) -> None:
        super().__init__()
        self._backend = backend
        self._connection = connection
        self._keeper = Keeper()
        self._children: set[Producer | Consumer] = set()
        self._lock = Lock()
        self._holds_something = True

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self._backend.name

    @property
    def capabilities(self) -> Capabilities:
        """What can be done here."""
        return self._connection.capabilities

    def health(self, timeout: float | None = 30) -> None:
        """Return if the backend answers; otherwise raise why not."""
        deadline = Deadline(timeout)
        with self._open("health"):
            self._connection.health(deadline.remaining(3600))

    def unwrap(self, kind: type[T]) -> T | None:
        """The native client of this type, or None."""
        with self._open("unwrap"):
            return self._connection.unwrap(kind)

    # topics ------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        retention: float | None = None,
        exist_ok: bool = False,
        options: Mapping[str, Any] | None = None,
        timeout: float | None = 30,
    ) -> None:
        """Create a topic. With ``exist_ok`` an existing one of as many partitions will do."""
        deadline = Deadline(timeout)
        check_new_topic(topic)
        if isinstance(partitions, bool) or not isinstance(partitions, int):
            raise TypeError(f"partitions is a whole number, not {type(partitions).__name__}")
        if not 1 <= partitions <= self.capabilities.partitions_max:
            raise ValueError(f"a topic has 1 to {self.capabilities.partitions_max} partitions, not {partitions}")
        if retention is not None:
            self._require("retention", "create topic")
        action = CreateTopic(topic, partitions, retention, dict(options or {}))
        with self._open("create topic"):
            try:
                self._backend.create_topic(self._connection, action, deadline)
            except TopicExists as error:
                if not exist_ok:
                    raise
                self._check_same(topic, partitions, deadline, error)

    def _check_same(self, topic: str, partitions: int, deadline: Deadline, error: TopicExists) -> None:
        there = len(self._topic(topic, deadline).logs)
        if there != partitions:
            raise TopicExists(
                f"the topic {topic!r} exists with {there} partitions, not {partitions}",
                backend=self.backend, topic=topic, operation="create topic", fix="Ask for as many as there are",
            ) from error  # fmt: skip

    def delete_topic(self, topic: str, *, timeout: float | None = 30) -> None:
        """Delete a topic with all its messages."""
        deadline = Deadline(timeout)
        self._require("delete_topic", "delete topic")
        with self._open("delete topic"):
            self._backend.delete_topic(self._connection, check_topic(topic), deadline)

    def topics(self, *, timeout: float | None = 30) -> list[str]:
        """The names of all topics, sorted, but for the backend's own."""
        deadline = Deadline(timeout)
        self._require("list_topics", "list topics")
        with self._open("list topics"):
            return sorted(self._backend.list_topics(self._connection, deadline))

    def partitions(self, topic: str, *, timeout: float | None = 30) -> list[Log]:
        """The log of each partition of a topic, in order."""
        deadline = Deadline(timeout)
        with self._open("describe topic"):
            return list(self._topic(topic, deadline).logs)

    def trim(self, topic: str, before: Mapping[int, Position], *, timeout: float | None = 30) -> None:
        """Remove what lies before a position of each of these partitions."""
        deadline = Deadline(timeout)
        self._require("trim", "trim")
        with self._open("trim"):
            logs = self._topic(topic, deadline).logs
            for position in before.values():
                check_log(position.log, logs)
            if before:
                self._backend.trim(self._connection, {each.log: each for each in before.values()}, deadline)

    # producing and consuming -------------------------------------------------------------------------------

    def producer(
        self,
        topic: str | None = None,
        *,
        create: bool = False,
        partitioner: str = "murmur2",
        queue_bytes: int = 64 * 1024 * 1024,
        timeout: float | None = 30,
    ) -> Producer:
        """A producer for one topic; without a topic, for any that its messages name."""
        deadline = Deadline(timeout)
        if partitioner not in PARTITIONERS:
            raise ValueError(f"no partitioner {partitioner!r}: there are {', '.join(PARTITIONERS)}")
        with self._open("open a producer"):
            info = self._find_or_create(topic, create, deadline) if topic is not None else None
            options = ProducerOptions(partitioner=partitioner, queue_bytes=queue_bytes)
            driver = self._backend.open_producer(self._connection, options, deadline)
            limits = (self.capabilities, queue_bytes)
            producer = Producer(self._backend, driver, topic, self._router(partitioner), limits, self._forget)
            if topic is not None and info is not None:
                producer._routes[topic] = self._route(info, partitioner)
        return self._adopt(producer)

    def _router(self, partitioner: str) -> Callable[[str, Deadline], Route]:
        return lambda topic, deadline: self._route(self._topic(topic, deadline), partitioner)

    def _route(self, info: TopicInfo, partitioner: str) -> Route:
        native = partitioner in self._backend.descriptor.partitioners
        return Route(info.name, len(info.logs), None if native else PARTITIONERS[partitioner]())

    def consumer(
        self,
        topics: str | Sequence[str],
        *,
        group: str | None = None,
        start: Start | None = None,
        until: Start | None = None,
        partitions: Sequence[int] | None = None,
        mode: Literal["ordered"] = "ordered",
        missing: Literal["error", "next"] = "error",
        must_exist: bool = False,
        create: bool = False,
        on_assigned: OnChange | None = None,
        on_revoked: OnChange | None = None,
        prefetch_bytes: int = PREFETCH,
        timeout: float | None = 30,
    ) -> Consumer:
        """A consumer of one or many topics.

        Without a ``group`` it sees all partitions, leaves no trace, and must say its ``start``. With one it shares
        them with the other members; ``start`` (EARLIEST by default) applies only where the group has no position.
        """
        deadline = Deadline(timeout)
        self._check_consumer(group, start, partitions, mode)
        with self._open("open a consumer"):
            logs = self._logs_of(topics, partitions, create, deadline)
            end = resolve(self._backend, self._connection, check_start(until), logs, deadline) if until else {}
            begin = check_start(start) if start is not None else EARLIEST
            lenient = missing == "next" or not isinstance(begin, Before | After | Position)
            holdings = Holdings(grouped=group is not None, until=end, on_assigned=on_assigned, on_revoked=on_revoked)
            consumer = Consumer(self._backend, self._connection, logs, group, holdings, self._forget)
            if group is None:
                positions = everywhere(self._backend, self._connection, begin, logs, deadline)
                if not lenient:
                    refuse_lost(self._backend, self._connection, positions, deadline)
                holdings.hold(positions, lenient=lenient)
                chosen: Any = positions
            else:
                chosen = group_start(self._backend, self._connection, begin, logs, deadline)
            options = ConsumerOptions(
                logs=logs, group=group, start=chosen, must_exist=must_exist, mode=mode, prefetch_bytes=prefetch_bytes
            )
            consumer._attach(self._backend.open_consumer(self._connection, options, holdings, deadline))
        return self._adopt(consumer)

    def _check_consumer(
        self, group: str | None, start: Start | None, partitions: Sequence[int] | None, mode: str
    ) -> None:
        if group is None and start is None:
            raise TypeError("a consumer without a group must say where to start, as in start=EARLIEST")
        if group is None:
            return
        check_group(group)
        self._require("groups", "open a consumer")
        if mode not in {"ordered", "exclusive", "shared", "key_shared"}:
            raise ValueError(f"mode is 'ordered', 'exclusive', 'shared' or 'key_shared', not {mode!r}")
        self._require(mode, "open a consumer")
        if partitions is not None:
            raise TypeError("the members of a group share its partitions: partitions= is for consumers without a group")

    def _logs_of(
        self, topics: str | Sequence[str], partitions: Sequence[int] | None, create: bool, deadline: Deadline
    ) -> list[Log]:
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise ValueError("a consumer reads at least one topic")
        logs = [log for name in names for log in self._find_or_create(name, create, deadline).logs]
        if partitions is None:
            return logs
        missing = set(partitions) - {log.partition for log in logs}
        if missing:
            raise ValueError(f"{names[0]!r} has no partition {min(missing)}: it has {len(logs)}")
        return [log for log in logs if log.partition in set(partitions)]

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

    # questions ---------------------------------------------------------------------------------------------

    @overload
    def watermarks(self, topic: str, *, timeout: float | None = 30) -> dict[int, Watermarks]: ...
    @overload
    def watermarks(
        self, topic: list[str] | tuple[str, ...], *, timeout: float | None = 30
    ) -> dict[str, dict[int, Watermarks]]: ...
    def watermarks(
        self, topic: str | list[str] | tuple[str, ...], *, timeout: float | None = 30
    ) -> dict[int, Watermarks] | dict[str, dict[int, Watermarks]]:
        """What each partition retains; for many topics at once, by topic."""
        deadline = Deadline(timeout)
        names = [topic] if isinstance(topic, str) else list(topic)
        with self._open("watermarks"):
            logs = {name: self._topic(name, deadline).logs for name in names}
            marks = self._backend.watermarks(
                self._connection, [log for each in logs.values() for log in each], None, deadline
            )
        found = {name: {log.partition: marks[log] for log in logs[name]} for name in names}
        return found[topic] if isinstance(topic, str) else found

    def bounds(self, topic: str, *, timeout: float | None = 30) -> dict[int, Bounds]:
        """The first and the last retained id of each partition."""
        deadline = Deadline(timeout)
        with self._open("bounds"):
            logs = self._topic(topic, deadline).logs
            found = self._backend.bounds(self._connection, logs, deadline)
        return {log.partition: found[log] for log in logs}

    def lag(self, topic: str, *, group: str, timeout: float | None = 30) -> dict[int, int]:
        """For each partition: about how many messages the group has before it; 0 only when it has none."""
        deadline = Deadline(timeout)
        check_group(group)
        self._require("groups", "lag")
        with self._open("lag"):
            logs = self._topic(topic, deadline).logs
            stored = self._backend.group_positions(self._connection, group, logs, deadline)
            if not stored:
                raise GroupNotFound(f"the group {group!r} has no position on {topic!r}", topic=topic)
            since = {log: where.position for log, where in stored.items()}
            marks = self._backend.watermarks(self._connection, logs, since, deadline)
        return {
            log.partition: 0 if log in since and since[log] >= marks[log].high else _behind(marks[log]) for log in logs
        }

    # inside ------------------------------------------------------------------------------------------------

    def _topic(self, topic: str, deadline: Deadline) -> TopicInfo:
        return self._backend.topic(self._connection, check_topic(topic), deadline)

    def _find_or_create(self, topic: str, create: bool, deadline: Deadline) -> TopicInfo:
        try:
            return self._topic(topic, deadline)
        except TopicNotFound:
            if not create:
                raise
        check_new_topic(topic)
        with suppress(TopicExists):
            return self._backend.create_topic(self._connection, CreateTopic(topic), deadline)
        return self._topic(topic, deadline)

    def _require(self, capability: str, operation: str) -> None:
        if not getattr(self.capabilities, capability):
            raise Unsupported(capability, backend=self.backend, operation=operation)

    def _open(self, operation: str) -> Any:
        self._fork.check()
        if self._closed:
            raise Closed(f"{self!r} was closed", backend=self.backend, operation=operation, fix="Connect again")
        return self._backend.context(operation)

    def _adopt(self, child: Child) -> Child:
        with self._lock:
            if not self._closed:
                self._children.add(child)
                self._keeper.add(child)
                return child
        child.close(0)
        raise Closed(f"{self!r} was closed meanwhile", backend=self.backend)

    def _forget(self, child: Producer | Consumer) -> None:
        self._keeper.remove(child)
        with self._lock:
            self._children.discard(child)

    # ending ------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = 30) -> None:
        """Close consumers, then producers, then the connection, within one deadline. May be called twice."""
        deadline = Deadline(timeout)
        with self._lock:
            already, self._closed = self._closed, True
            children = sorted(self._children, key=lambda child: isinstance(child, Producer))
        if already or self._fork.crossed:
            return
        failures: list[Error] = []
        for child in children:
            try:
                child.close(None if timeout is None else deadline.remaining())
            except Error as error:
                failures.append(error)
        self._keeper.stop()
        close_native(f"the connection to {self.backend}", self._connection.close, deadline)
        if failures:
            raise failures[0]

    def __repr__(self) -> str:
        return f"<Client {self.backend}{', closed' if self._closed else ''}>"


Child = TypeVar("Child", Producer, Consumer)


def _drain(consumer: Consumer) -> Iterator[Message]:
    with consumer:
        yield from consumer


def _behind(marks: Watermarks) -> int:
    return max(marks.count, 0 if marks.low == marks.high else 1)
