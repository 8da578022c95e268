"""A client's session: opens producers and consumers, for the plain client and the asyncio one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from mqplug._base.closing import Session, close_native
from mqplug._base.deadline import Deadline
from mqplug._client.groups import Groups
from mqplug._client.open_objects import OpenedSession, OpenObjects
from mqplug._client.queries import Queries
from mqplug._client.topics import Topics
from mqplug._model.errors import Closed, Timeout, TopicNotFound, Unsupported
from mqplug._model.log import Log
from mqplug._model.names import Matching, check_topics
from mqplug._plugins.backend import NO_TIMEOUT_S, Backend
from mqplug._plugins.capabilities import public
from mqplug.spi._actions import ProducerOptions, TransactionMark, TransactionOptions

if TYPE_CHECKING:
    from mqplug._client.transaction import Transaction
    from mqplug._consume.consumer import Consumer
    from mqplug._consume.consumer_session import ConsumerSession
    from mqplug._consume.opening import ConsumerRequest
    from mqplug._produce.producer import Producer
    from mqplug._produce.producer_session import ProducerSession
    from mqplug._produce.routing import Partitioner, PartitionerName, Router
    from mqplug._produce.transaction_session import TransactionSession
    from mqplug.spi._descriptor import Capabilities


class ClientSession(Session):
    """A connection to one backend, with its open producers and consumers. Any thread may use it."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend
        self.connection = backend.connection
        self.topics = Topics(backend)
        self.groups = Groups(backend, self.topics)
        self.queries = Queries(backend, self.topics, self.groups)
        self.open_objects = OpenObjects(self.topics)
        self._transactions: dict[str, TransactionSession] = {}
        self._opening_transactions = Lock()
        self._holds_something = True

    @property
    def capabilities(self) -> Capabilities:
        """The operations and limits of the backend, plus those that the core adds."""
        return public(self.connection.capabilities)

    def using(
        self, operation: str, timeout: float | None = None, *, needs: str | None = None
    ) -> AbstractContextManager[Deadline]:
        """Check that the client is open and has the capability ``needs``. Yield the deadline of the operation.

        Errors in the block name the operation.
        """
        deadline = Deadline(timeout)
        self.fork.check()
        if self.closed:
            raise Closed(f"{self!r} was closed", backend=self.backend.name, operation=operation, fix="Connect again")
        return self._using(operation, needs, deadline)

    @contextmanager
    def _using(self, operation: str, needs: str | None, deadline: Deadline) -> Iterator[Deadline]:
        with self.backend.context(operation):
            try:
                self._check_capability(needs)
                yield deadline
            except Unsupported as error:
                if error.fix == Unsupported.fix:
                    error.fix = self.connection.advice(error.capability) or error.fix
                raise

    def _check_capability(self, name: str | None) -> None:
        if name is not None and not getattr(self.capabilities, name):
            raise Unsupported(name)

    def open_producer(
        self,
        topic: str | None,
        *,
        create: bool = False,
        partitioner: PartitionerName | Partitioner = "murmur2",
        queue_messages: int = 100_000,
        queue_bytes: int = 64 * 1024 * 1024,
        partitions_refresh: float = 60,
        timeout: float | None = 30,
    ) -> ProducerSession:
        """Open a producer, as ``Client.producer`` documents."""
        from mqplug._produce.producer_session import ProducerSession
        from mqplug._produce.queue import check_limits
        from mqplug._produce.routing import Router, check_refresh

        limits = check_limits(queue_messages, queue_bytes)
        check_refresh(partitions_refresh)
        with self.using("open a producer", timeout) as deadline:
            router = Router(self.topics, partitioner, self.backend.descriptor.partitioners)
            route = None if topic is None else router.route_of(self.topics.find_or_create(topic, create, deadline))
            options = ProducerOptions(partitioner=router.name, queue_bytes=queue_bytes)
            driver = self.backend.open_producer(options, deadline)
            forget = self.open_objects.forget
            opened = ProducerSession(self.backend, driver, topic, router, limits, self.capabilities, forget)
            opened.refresh_every(partitions_refresh)
            if route is not None:
                opened.learn(route)
        return self._add(opened, self.open_objects.producers)

    def begin_transaction(
        self,
        name: str,
        topic: str | None,
        consumer: Consumer | None,
        number: int | None,
        partitioner: PartitionerName | Partitioner,
        limits: tuple[int, int],
        timeout: float | None,
    ) -> Transaction:
        """Begin a transaction, as ``Client.transaction`` documents. The arguments were checked."""
        from mqplug._client.transaction import Transaction
        from mqplug._consume.consumer import session_of
        from mqplug._consume.step_acks import StepAcks
        from mqplug._produce.routing import Router

        with self.using("transaction", timeout, needs="transactions") as deadline:
            if consumer is not None and session_of(consumer).driver_session.connection is not self.connection:
                raise ValueError("consumer= was opened by a different client")
            router = Router(self.topics, partitioner, ())
            holder = self._hold_transaction(name, topic, router, limits, deadline)
            holder.choose_by(router)
            mark = None
            if topic is not None:
                route = holder.routes.get(topic) or holder.look_up(topic, deadline)
                mark = None if number is None else TransactionMark(route.topic, number)
            acks = None if consumer is None else StepAcks(session_of(consumer), name)
            try:
                known = holder.begin(mark, limits, deadline)
            except BaseException:
                if acks is not None:
                    acks.cancel()
                raise
        return Transaction(holder, topic, acks, timeout, numbered=number is not None, known=known)

    def _hold_transaction(
        self, name: str, topic: str | None, router: Router, limits: tuple[int, int], deadline: Deadline
    ) -> TransactionSession:
        """Return the session of a transaction name. The first call for a name takes it over from other clients."""
        from mqplug._produce.transaction_session import TransactionSession

        if not self._opening_transactions.acquire(timeout=deadline.remaining(NO_TIMEOUT_S)):
            raise Timeout("the takeover of another transaction name did not finish in time")
        try:
            if (held := self._transactions.get(name)) is not None:
                held.check_usable()
                return held
            options = TransactionOptions(name=name, topic=topic, queue_bytes=limits[1])
            driver = self.backend.open_transactions(options, deadline)
            forget = self.open_objects.forget
            opened = TransactionSession(self.backend, driver, name, router, limits, self.capabilities, forget)
            self._add(opened, self.open_objects.producers)
            self._transactions[name] = opened
            return opened
        finally:
            self._opening_transactions.release()

    def open_consumer(
        self, topics: str | Sequence[str] | Matching, request: ConsumerRequest, *, create: bool, timeout: float | None
    ) -> ConsumerSession:
        """Open a consumer, as ``Client.consumer`` documents."""
        from mqplug._consume.opening import Following, open_consumer

        following = None
        if isinstance(topics, Matching):
            request.check_pattern(topics, create=create)
            following = Following(topics, partial(self.topics.matching, topics))
        names = [] if isinstance(topics, Matching) else check_topics(topics)
        request.check(names, self.capabilities, self.backend.name)
        with self.using("open a consumer", timeout, needs="topic_patterns" if following else None) as deadline:
            if following is None:
                logs = self.topics.logs(names, request.partitions, create, deadline)
            else:
                logs = following.find(deadline)
            if not logs and request.until is not None:
                raise TopicNotFound(f"no topic matches {topics}, so there is nothing to read", fix="See topics()")
            letters = None
            if request.dead_letter is not None:
                letters = self._open_dead_letters(request.dead_letter, logs, create, deadline)
            try:
                opened = open_consumer(
                    self.backend, logs, request, deadline, letters, following, self.open_objects.forget
                )
            except BaseException:
                if letters is not None:
                    letters.close(0)
                raise
        return self._add(opened, self.open_objects.consumers)

    def _open_dead_letters(self, topic: str, logs: Sequence[Log], create: bool, deadline: Deadline) -> Producer:
        """Open a producer for the dead letters of these logs.

        The topic is looked up first: its name may be another spelling of one of the consumer's own topics.
        """
        from mqplug._consume.opening import own_dead_letters
        from mqplug._produce.producer import Producer

        if not set(logs).isdisjoint(self.topics.find_or_create(topic, create, deadline).logs):
            raise own_dead_letters(topic)
        return Producer(self.open_producer(topic, timeout=deadline.timeout_left()))

    def _add(self, opened: OpenedSession, among: set[OpenedSession]) -> OpenedSession:
        if not self.open_objects.add(opened, among):
            opened.close(0)
            raise Closed(f"{self!r} was closed during the call", backend=self.backend.name)
        return opened

    def close(self, timeout: float | None = 30) -> None:
        """Close consumers, then producers, then the connection, within one deadline."""
        deadline = Deadline(timeout)
        with self._closing_once(deadline) as mine:
            if not mine:
                return
            self.open_objects.shut()
            failures = self.open_objects.close(deadline)
            name = self.backend.name
            of_driver = close_native(f"the connection to {name}", self.connection.close, deadline)
            if failures:
                raise failures[0]
            if of_driver is not None:
                raise of_driver.at(backend=name, operation="close")

    def __repr__(self) -> str:
        return f"<Client {self.backend.name}{', closed' if self.closed else ''}>"
