"""Producers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from mqplug._base.closing import Closable, close_native
from mqplug._base.deadline import Deadline
from mqplug._model.errors import CloseIncomplete, Error, MessageTooLarge, SendFailed, Timeout
from mqplug._model.ids import MessageId
from mqplug._produce.columns import Records, columns_of
from mqplug._produce.handle import SendHandle
from mqplug._produce.queue import SendQueue, WhenFull, check_when_full
from mqplug._produce.record import HeadersArgument, check, check_declared, size_of, takes_everything
from mqplug._produce.results import SentBatch
from mqplug._produce.sorting import Sorter

if TYPE_CHECKING:
    from mqplug._model.headers import Headers
    from mqplug._model.statistics import ProducerStatistics
    from mqplug._plugins.backend import Backend
    from mqplug._produce.routing import Route, Router
    from mqplug._produce.run import Run
    from mqplug._produce.sorting import Rows
    from mqplug.spi._descriptor import Capabilities
    from mqplug.spi._drivers import ProducerDriver


class Producer(Closable):
    """Sends messages to one topic, or to any. Made by ``Client.producer``. Any thread may use it."""

    def __init__(
        self,
        backend: Backend,
        driver: ProducerDriver,
        topic: str | None,
        router: Router,
        limits: tuple[int, int],
        able: Capabilities,
        on_closed: Callable[[Producer], None],
    ) -> None:
        super().__init__()
        self.topic = topic
        self._backend = backend
        self._driver = driver
        self._router = router
        self._routes: dict[str | None, Route] = {}
        self._largest = able.message_max_bytes
        self._narrow = None if takes_everything(able) else able
        self._on_closed = on_closed
        self._queue = SendQueue(backend, driver, topic, limits)
        self._wait = self._queue.pump.wait
        messages, size = min(able.batch_max_messages, limits[0]), min(able.batch_max_bytes, limits[1])
        self._sorter = Sorter(topic, messages, size, self._wait)
        self._holds_something = True

    def _know(self, route: Route) -> None:
        """Where the records of a topic go from now on."""
        self._routes[route.topic] = route
        if route.topic == self.topic:
            self._routes[None] = route

    def _forget(self, topic: str) -> None:
        """A topic has changed: it is looked at again before the next record for it."""
        self._routes.pop(topic, None)
        if topic == self.topic:
            self._routes.pop(None, None)

    # sending -----------------------------------------------------------------------------------------------

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: HeadersArgument = (),
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        topic: str | None = None,
        timeout: float | None = 30,
    ) -> MessageId:
        """Send one message and wait until it is stored; the id that the consumer will see."""
        deadline = Deadline(timeout)
        route = self._routes.get(topic)
        if route is None or route.lacks(partition):
            check(value, key, headers, timestamp)
            route = self._find_route(topic, deadline)
        handle = self._handle(route, value, key, headers, timestamp, partition)
        handle.looked_at = True
        if not self._queue.put(handle, waits=True):
            self._queue.accept(handle, deadline)
        if handle.outcome is None:
            self._wait(handle, deadline)
        return handle.result(0)

    def submit(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: HeadersArgument = (),
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        topic: str | None = None,
        when_full: WhenFull = "block",
        timeout: float | None = 30,
    ) -> SendHandle:
        """Send one message without waiting for it; its handle has ``result(timeout)``.

        When the queue is full this waits for room, for ``timeout`` at most, or raises ``QueueFull`` at once. A failed
        message that nobody looked at raises at ``flush`` or ``close``.
        """
        if when_full != "block":
            check_when_full(when_full)
        route = self._routes.get(topic)
        deadline = None if timeout == 30 else Deadline(timeout)
        if route is None or (partition is not None and route.lacks(partition)):
            check(value, key, headers, timestamp)
            deadline = deadline or Deadline(timeout)
            route = self._find_route(topic, deadline)
        handle = self._handle(route, value, key, headers, timestamp, partition)
        if not self._queue.put(handle):
            self._queue.accept(handle, deadline or Deadline(timeout), when_full)
        return handle

    def send_many(self, records: Records, *, timeout: float | None = 30) -> Sequence[MessageId]:
        """Send messages as one batch and wait for all; their ids in the same order.

        Instead of records this takes Arrow data of any library: a record batch, or a table, with the columns of
        ``Batch.to_arrow``. Only ``value`` is needed.

        Raises ``SendFailed`` if any failed: its ``results`` has an id or an error for each. A batch that is larger
        than what the backend takes at once goes in parts.
        """
        deadline = Deadline(timeout)
        return self._await_many(self._hand_over_many(records, deadline), deadline)

    def _hand_over_many(self, records: Records, deadline: Deadline) -> SentBatch:
        """Check a batch and hand it over."""
        columns = columns_of(records, self.topic)
        self._queue.check_open()
        rows = range(len(columns))
        if not rows:
            return SentBatch(0, [], {})
        if self._narrow is not None:
            self._check_declared(*columns.uses())
        refused = self._refused(columns.sizes) if columns.size > self._largest else {}
        good = [row for row in rows if row not in refused] if refused else rows
        runs = list(self._sorter.runs(columns, good, lambda topic, most: self._route(topic, most, deadline)))
        self._accept_all(runs, deadline)
        return SentBatch(len(rows), runs, refused)

    def _refused(self, sizes: Sequence[int]) -> dict[int, Error]:
        if max(sizes) <= self._largest:
            return {}
        return {row: self._too_large(size, self.topic) for row, size in enumerate(sizes) if size > self._largest}

    def _accept_all(self, runs: Sequence[tuple[Run, Rows]], deadline: Deadline) -> None:
        """Hand all over; if one cannot be, those before it are on their way, and its records have the reason."""
        for number, (run, _) in enumerate(runs):
            try:
                self._queue.accept(run, deadline)
            except Error as error:
                if number == 0:
                    raise
                run.failed(error)

    def _await_many(self, batch: SentBatch, deadline: Deadline) -> Sequence[MessageId]:
        """Wait for a batch that was handed over: the id of each record, or ``SendFailed``."""
        for run, _ in batch.runs:
            self._wait(run, deadline)
        try:
            return batch.ids()
        except SendFailed as error:
            error.at(backend=self._backend.name, topic=self.topic, operation="send_many")
            raise

    def flush(self, timeout: float | None = 30) -> None:
        """Wait until all that was accepted before is settled. Raises what failed and nobody looked at."""
        deadline = Deadline(timeout)
        self._queue.check_open()
        self._queue.drain(deadline)
        self._queue.raise_unseen("flush")

    def statistics(self) -> ProducerStatistics:
        """How many messages were stored, failed, or are on their way; also after close."""
        self._fork.check()
        return self._queue.statistics()

    # inside ------------------------------------------------------------------------------------------------

    def _handle(
        self,
        route: Route,
        value: bytes | None,
        key: bytes | None,
        headers: HeadersArgument,
        timestamp: datetime | int | None,
        partition: int | None,
    ) -> SendHandle:
        """The handle of a record that was checked and has its partition; the common case first."""
        if type(value) is bytes and timestamp is None and not headers and (key is None or type(key) is bytes):
            size = len(value) if key is None else len(value) + len(key)
            pairs: Headers = ()
            moment = None
        else:
            value, key, pairs, moment = check(value, key, headers, timestamp)
            size = size_of(value, key, pairs)
        if partition is not None:
            partition = route.check(partition)
        elif key is None:
            partition = next(route.chooser.keyless)
        else:
            partition = route.chooser.keyed(key)
        if size > self._largest:
            raise self._too_large(size, route.topic)
        if self._narrow is not None:
            self._check_declared(value is None, key is not None, bool(pairs), moment is not None)
        return SendHandle(route.topic, partition, value, key, pairs, moment, size, self._wait)

    def _check_declared(self, null: bool, keys: bool, headers: bool, timestamps: bool) -> None:
        if self._narrow is not None:
            with self._backend.context("send", self.topic):
                check_declared(
                    self._narrow, null_payload=null, keys=keys, headers=headers, timestamps_producer=timestamps
                )

    def _too_large(self, size: int, topic: str | None) -> MessageTooLarge:
        return MessageTooLarge(
            f"the message has {size} bytes, the most is {self._largest}",
            backend=self._backend.name, topic=topic, operation="send",
        )  # fmt: skip

    def _route(self, topic: str | None, partition: int | None, deadline: Deadline) -> Route:
        """Where the records of a topic go; looked at again where it lacks this partition."""
        route = self._routes.get(topic)
        return self._find_route(topic, deadline) if route is None or route.lacks(partition) else route

    def _find_route(self, topic: str | None, deadline: Deadline) -> Route:
        self._queue.check_open()
        name = self.topic if topic is None else topic
        if name is None:
            raise TypeError("this producer was opened without a topic: say topic= with each message")
        route = self._routes[name] = self._routes[topic] = self._router.find(name, deadline)
        return route

    # ending ------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = 30) -> None:
        """Flush what was accepted, then let go. May be called twice.

        What cannot be settled in time becomes ``OutcomeUnknown``, and is counted in one ``CloseIncomplete``.
        """
        deadline = Deadline(timeout)
        with self._closing_once(deadline) as mine:
            if mine:
                self._close(deadline)

    def _close(self, deadline: Deadline) -> None:
        self._queue.shut()
        try:
            with suppress(Timeout):  # counted below
                self._queue.drain(deadline)
        finally:
            given_up = self._queue.give_up()
            of_driver = close_native(f"a producer of {self.topic or 'any topic'}", self._driver.close, deadline)
            self._on_closed(self)
        unseen = self._queue.unseen("close")
        if given_up:
            raise CloseIncomplete(
                f"the outcome of {given_up} messages is unknown",
                backend=self._backend.name, topic=self.topic, operation="close", fix="Close with more time",
            ) from unseen  # fmt: skip
        if unseen is not None:
            raise unseen
        if of_driver is not None:
            raise of_driver.at(backend=self._backend.name, topic=self.topic, operation="close")

    def _keep(self) -> None:
        """The keeper's round: serve reports when nobody waits for them."""
        if not self._closed:
            self._queue.keep()

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<Producer {self._backend.name} {self.topic or 'any topic'}{state}>"
