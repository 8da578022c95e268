"""A producer's session: routes, checks and hands over records, for the plain producer and the asyncio one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from mqplug._base.closing import Session, close_native
from mqplug._base.deadline import Deadline
from mqplug._model.errors import CloseIncomplete, Error, MessageTooLarge, SendFailed, Timeout
from mqplug._model.ids import MessageId
from mqplug._produce.columns import Records, columns_of
from mqplug._produce.handle import SendHandle, SingleSend
from mqplug._produce.queue import SendQueue, WhenFull
from mqplug._produce.record import HeadersArgument, check_declared, check_record, size_of, takes_everything
from mqplug._produce.sent_batch import BatchSplitter, SentBatch

if TYPE_CHECKING:
    from mqplug._model.message import Headers
    from mqplug._plugins.backend import Backend
    from mqplug._produce.collecting import Collector
    from mqplug._produce.outcomes import ProducerStatistics
    from mqplug._produce.routing import Route, Router
    from mqplug._produce.send_run import SendRun
    from mqplug._produce.sent_batch import Rows
    from mqplug.spi._descriptor import Capabilities
    from mqplug.spi._drivers import ProducerDriver

PARTITIONS_REFRESH_S = 60.0

Fields = tuple[bytes | None, bytes | None, HeadersArgument, datetime | int | None, int | None]
"""Value, key, headers, timestamp and partition of a record, as the caller gave them."""


class ProducerSession(Session):
    """An open producer of one topic, or of any. Any thread may use it.

    ``routes`` has the route of each known topic; None is the producer's own topic.
    """

    def __init__(
        self,
        backend: Backend,
        driver: ProducerDriver,
        topic: str | None,
        router: Router,
        limits: tuple[int, int],
        able: Capabilities,
        on_closed: Callable[[ProducerSession], None],
    ) -> None:
        super().__init__()
        self.topic = topic
        self.routes: dict[str | None, Route] = {}
        self.queue = self._new_queue(backend, driver, topic, limits, (able.batch_max_messages, able.batch_max_bytes))
        self.wait = self.queue.wait
        self._backend = backend
        self._driver = driver
        self._router = router
        self.max_bytes = able.message_max_bytes
        self._narrow = None if takes_everything(able) else able
        self.collector = self._new_collector()
        """Collects the submitted records of the producer's own topic; None if they are not collected."""
        self._on_closed = on_closed
        messages, size = min(able.batch_max_messages, limits[0]), min(able.batch_max_bytes, limits[1])
        self._splitter = BatchSplitter(topic, messages, size, self.wait)
        self._holds_something = True
        self.refresh_every(PARTITIONS_REFRESH_S)

    _new_queue: Callable[..., SendQueue] = SendQueue

    def _new_collector(self) -> Collector | None:
        queue = self.queue
        if not queue.collects or self._narrow is not None:
            return None
        made: Collector = queue.collecting.Collector(queue.new_handle, self.max_bytes, queue.lock)
        return made

    # routes ------------------------------------------------------------------------------------------------

    def learn(self, route: Route) -> None:
        """Use this route for all later records of its topic."""
        self.routes[route.topic] = route
        if route.topic == self.topic:
            self._use(None, route)

    def forget(self, topic: str) -> None:
        """Look a changed topic up again before the next record for it."""
        self.routes.pop(topic, None)
        if topic == self.topic:
            self.routes.pop(None, None)
            self._stop_collecting()

    def refresh_every(self, seconds: float) -> None:
        """Look for added partitions at least this often."""
        self.partitions_refresh = seconds
        self.refresh_at = time.monotonic() + seconds

    def known_routes(self) -> list[Route]:
        """Return the route of each known topic."""
        return list({id(route): route for route in self.routes.copy().values()}.values())

    def replace(self, route: Route, partitions: int) -> None:
        """Replace this route by one with this number of partitions, unless it has been replaced already."""
        new = self._router.route(route.topic, partitions)
        for name, known in self.routes.copy().items():
            if known is route:
                self._use(name, new)

    def find_route(self, topic: str | None, deadline: Deadline) -> Route:
        """Look up the route of a topic; None is the producer's own topic."""
        self.queue.check_open()
        name = self.topic if topic is None else topic
        if name is None:
            raise TypeError("this producer was opened without a topic: pass topic= with each message")
        route = self._router.find(name, deadline)
        self._use(name, route)
        self._use(topic, route)
        return route

    def _use(self, name: str | None, route: Route) -> None:
        self.routes[name] = route
        if name is None and self.collector is not None:
            rows, chooser = self.queue.open_runs.rows_of(route.topic), route.chooser
            self.collector.follow(rows, chooser.keyless, chooser.keyed)

    def _stop_collecting(self) -> None:
        if self.collector is not None:
            self.collector.follow({}, 0, 0)

    def _route(self, topic: str | None, partition: int | None, deadline: Deadline) -> Route:
        """Return the route of a topic. Look it up if it is unknown or lacks this partition."""
        route = self.routes.get(topic)
        return self.find_route(topic, deadline) if route is None or route.lacks(partition) else route

    # sending -----------------------------------------------------------------------------------------------

    def _checked(
        self,
        route: Route,
        value: bytes | None,
        key: bytes | None,
        headers: HeadersArgument,
        timestamp: datetime | int | None,
        partition: int | None,
    ) -> tuple[int, bytes | None, bytes | None, Headers, int | None, int]:
        """Check a record and choose its partition. Return the partition, its fields, and its size.

        The common case comes first.
        """
        if type(value) is bytes and timestamp is None and not headers and (key is None or type(key) is bytes):
            size = len(value) if key is None else len(value) + len(key)
            pairs: Headers = ()
            moment = None
        else:
            value, key, pairs, moment = check_record(value, key, headers, timestamp)
            size = size_of(value, key, pairs)
        if partition is not None:
            partition = route.check(partition)
        elif key is None:
            partition = next(route.chooser.keyless)
        else:
            partition = route.chooser.keyed(key)
        if size > self.max_bytes:
            raise self._too_large(size, route.topic)
        if self._narrow is not None:
            self._check_declared(value is None, key is not None, bool(pairs), moment is not None)
        return partition, value, key, pairs, moment, size

    def new_handle(self, route: Route, fields: Fields) -> SingleSend:
        """Check a record, choose its partition, and return its handle."""
        partition, value, key, headers, moment, size = self._checked(route, *fields)
        return SingleSend(route.topic, partition, value, key, headers, moment, size, self.wait)

    def submit(self, route: Route, fields: Fields, when_full: WhenFull, deadline: Deadline) -> SendHandle:
        """Check a record and queue it, to be handed over with others if the driver takes runs."""
        if not self.queue.collects:
            single = self.new_handle(route, fields)
            if not self.queue.put(single):
                self.queue.accept(single, deadline, when_full)
            return single
        partition, value, key, headers, moment, size = self._checked(route, *fields)
        row = value, key, headers, moment
        return self.queue.collect(route.topic, partition, row, size, deadline, when_full)

    def collect(
        self, partition: int, value: bytes | None, key: bytes | None, when_full: WhenFull, deadline: Deadline
    ) -> SendHandle:
        """Queue a record of the producer's own topic that has been checked, as soon as there is room for more rows."""
        row = value, key, (), None
        return self.queue.collect(self.topic or "", partition, row, size_of(value, key, ()), deadline, when_full)

    def submit_single(self, single: SingleSend, deadline: Deadline) -> None:
        """Queue a record that has its own handle, to be handed over with others if the driver takes runs."""
        if self.queue.collects:
            row = single.value, single.key, single.headers, single.timestamp
            self.queue.collect(single.topic, single.partition, row, single.size, deadline, single=single)
        elif not self.queue.put(single):
            self.queue.accept(single, deadline)

    def hand_over_many(self, records: Records, deadline: Deadline) -> SentBatch:
        """Check a batch and hand it over to the driver."""
        batch = self.prepare_many(records, deadline)
        self.accept_all(batch.runs, deadline)
        return batch

    def prepare_many(self, records: Records, deadline: Deadline, topic: str | None = None) -> SentBatch:
        """Check a batch, and split it into runs to hand over. ``topic`` replaces the producer's own."""
        topic = topic or self.topic
        columns = columns_of(records, topic)
        self.queue.check_open()
        rows = range(len(columns))
        if not rows:
            return SentBatch(0, [], {})
        if self._narrow is not None:
            self._check_declared(*columns.uses())
        refused = self._refused(columns.sizes) if columns.size > self.max_bytes else {}
        good = [row for row in rows if row not in refused] if refused else rows
        runs = list(self._splitter.runs(columns, good, lambda named, most: self._route(named or topic, most, deadline)))
        return SentBatch(len(rows), runs, refused)

    def _refused(self, sizes: Sequence[int]) -> dict[int, Error]:
        if max(sizes) <= self.max_bytes:
            return {}
        return {row: self._too_large(size, self.topic) for row, size in enumerate(sizes) if size > self.max_bytes}

    def accept_all(self, runs: Sequence[tuple[SendRun, Rows]], deadline: Deadline) -> None:
        """Hand over all runs. If one fails, its records get the error; the runs before it are on their way."""
        for number, (run, _) in enumerate(runs):
            try:
                self.queue.accept(run, deadline)
            except Error as error:
                if number == 0:
                    raise
                run.failed(error)

    def await_many(self, batch: SentBatch, deadline: Deadline) -> Sequence[MessageId]:
        """Wait for a batch that was handed over. Return the id of each record, or raise ``SendFailed``."""
        for run, _ in batch.runs:
            self.wait(run, deadline)
        try:
            return batch.ids()
        except SendFailed as error:
            error.at(backend=self._backend.name, topic=self.topic, operation="send_many")
            raise

    def flush(self, deadline: Deadline) -> None:
        """Wait until every accepted record is settled. Raise the failures that no caller has seen."""
        self.queue.check_open()
        self.queue.drain(deadline)
        self.queue.raise_unseen("flush")

    def statistics(self) -> ProducerStatistics:
        """Return counts of the messages that were stored, failed, or are on their way; works after close."""
        self.fork.check()
        return self.queue.statistics()

    def _check_declared(self, null: bool, keys: bool, headers: bool, timestamps: bool) -> None:
        if self._narrow is not None:
            with self._backend.context("send", self.topic):
                check_declared(
                    self._narrow, null_payload=null, keys=keys, headers=headers, timestamps_producer=timestamps
                )

    def _too_large(self, size: int, topic: str | None) -> MessageTooLarge:
        return MessageTooLarge(
            f"the message has {size} bytes; the limit is {self.max_bytes}",
            backend=self._backend.name, topic=topic, operation="send",
        )  # fmt: skip

    # ending ------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = 30) -> None:
        """Flush, then close the driver. Records that are not settled in time become ``OutcomeUnknown``."""
        deadline = Deadline(timeout)
        with self._closing_once(deadline) as mine:
            if mine:
                self._close(deadline)

    def _close(self, deadline: Deadline) -> None:
        self.queue.shut()
        try:
            with suppress(Timeout):  # counted below
                self.queue.drain(deadline)
        finally:
            given_up = self.queue.give_up()
            self.queue.end(deadline)
            of_driver = close_native(f"a producer of {self.topic or 'any topic'}", self._driver.close, deadline)
            self._on_closed(self)
        unseen = self.queue.unseen("close")
        if given_up:
            raise CloseIncomplete(
                f"the outcome of {given_up} messages is unknown",
                backend=self._backend.name, topic=self.topic, operation="close", fix="Close with more time",
            ) from unseen  # fmt: skip
        if unseen is not None:
            raise unseen
        if of_driver is not None:
            raise of_driver.at(backend=self._backend.name, topic=self.topic, operation="close")

    def work_in_background(self) -> None:
        """Serve the driver's reports when no sender waits for them."""
        if not self.closed:
            self.queue.serve_unattended()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<Producer {self._backend.name} {self.topic or 'any topic'}{state}>"
