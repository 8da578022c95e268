"""The asyncio producer, and the stage for messages to ingest as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from threading import Event
from types import TracebackType
from typing import Self

from mqplug._base.deadline import Deadline
from mqplug._client.stage import Stage
from mqplug._model.errors import Closed, QueueFull, Timeout
from mqplug._model.ids import MessageId
from mqplug._plugins.backend import NO_TIMEOUT_S
from mqplug._produce.columns import Records, snapshot
from mqplug._produce.handle import SingleSend
from mqplug._produce.outcomes import ProducerStatistics
from mqplug._produce.producer import Producer
from mqplug._produce.producer_session import Fields, ProducerSession
from mqplug._produce.queue import WhenFull, check_when_full
from mqplug._produce.record import HeadersArgument, check_record
from mqplug._produce.routing import Route
from mqplug.aio._loop import AsyncChild, ClientLoop, on_thread
from mqplug.aio._send_queue import AsyncSendHandle, AsyncSendQueue

HAND_OVER_WAIT_S = 0.1


class AsyncProducer(AsyncChild):
    """A producer whose calls are awaited. Messages are sent in the order of the calls."""

    def __init__(self, loop: ClientLoop, session: ProducerSession, on_closed: Callable[[AsyncProducer], None]) -> None:
        super().__init__(loop, on_closed)
        self.sync = Producer(session)
        """The synchronous producer, for use from threads."""
        self._session = session
        self._queue = AsyncSendQueue(loop, session)
        self._line = asyncio.Lock()
        self._in_line = 0

    @property
    def topic(self) -> str | None:
        """As ``Producer.topic``."""
        return self.sync.topic

    # sending -----------------------------------------------------------------------------------------------

    async def send(
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
        """As ``Producer.send``.

        If cancelled, the send continues and its outcome is unknown, unless it was cancelled before the loop ran other
        tasks: then the message is not sent.
        """
        deadline = Deadline(timeout)
        handle = await self._put(topic, (value, key, headers, timestamp, partition), "block", deadline, alone=True)
        return await handle.result(deadline.timeout_left())

    async def submit(
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
    ) -> AsyncSendHandle:
        """As ``Producer.submit``; ``await`` the handle for the id."""
        check_when_full(when_full)
        deadline = Deadline(timeout)
        handle = await self._put(topic, (value, key, headers, timestamp, partition), when_full, deadline)
        if self._loop.is_due:
            await self._loop.give_way()
        return handle

    async def send_many(self, records: Records, *, timeout: float | None = 30) -> Sequence[MessageId]:
        """As ``Producer.send_many``. If cancelled, the messages may or may not be stored."""
        deadline = Deadline(timeout)
        self._check_open()
        hand_over = partial(self._session.hand_over_many, snapshot(records), deadline)
        if self._in_line:
            async with self._turn(deadline):
                handing_over = self._queue.put_work(hand_over)
        else:
            handing_over = self._queue.put_work(hand_over)
        batch = await handing_over
        return await self._loop.call(partial(self._session.await_many, batch, deadline))

    async def flush(self, timeout: float | None = 30) -> None:
        """As ``Producer.flush``."""
        deadline = Deadline(timeout)
        self._check_open()
        await self._loop.call(partial(self._flush, self._queue.mark(), deadline))

    def _flush(self, handed_over: Event, deadline: Deadline) -> None:
        if not handed_over.wait(deadline.remaining(NO_TIMEOUT_S)):
            raise Timeout(
                "not all messages could be handed over in time",
                topic=self.topic,
                operation="flush",
                fix="Flush again: they are still on their way",
            )
        self.sync.flush(deadline.timeout_left())

    async def statistics(self) -> ProducerStatistics:
        """As ``Producer.statistics``."""
        handed_over = self._queue.mark()

        def look() -> ProducerStatistics:
            handed_over.wait(HAND_OVER_WAIT_S)
            return self.sync.statistics()

        return await self._loop.call(look)

    # inside ------------------------------------------------------------------------------------------------

    async def _put(
        self, topic: str | None, fields: Fields, when_full: WhenFull, deadline: Deadline, *, alone: bool = False
    ) -> AsyncSendHandle:
        """Send a record, at once if there is room. ``alone``: no other code gets its handle."""
        self._check_open()
        route = self._session.routes.get(topic)
        if self._in_line or not self._queue.has_room or route is None or route.lacks(fields[-1]):
            check_record(*fields[:4])
            return await self._put_in_line(topic, fields, when_full, deadline, alone=alone)
        return self._queue.put(self._handle(route, fields, alone=alone), droppable=alone)

    async def _put_in_line(
        self, topic: str | None, fields: Fields, when_full: WhenFull, deadline: Deadline, *, alone: bool
    ) -> AsyncSendHandle:
        async with self._turn(deadline):
            route = self._session.routes.get(topic)
            if route is None or route.lacks(fields[-1]):
                route = await self._loop.call(partial(self._session.find_route, topic, deadline))
            handle = self._handle(route, fields, alone=alone)
            while not self._queue.has_room:
                if when_full == "raise" or deadline.expired:
                    raise self._full()
                await self._queue.wait_for_room(deadline.timeout_left())
                self._check_open()
            return self._queue.put(handle, droppable=alone)

    @asynccontextmanager
    async def _turn(self, deadline: Deadline) -> AsyncIterator[None]:
        """Wait for earlier callers, and make later ones wait."""
        self._in_line += 1
        try:
            try:
                async with asyncio.timeout(deadline.timeout_left()):
                    await self._line.acquire()
            except TimeoutError:
                raise self._full() from None
            try:
                self._check_open()
                yield
            finally:
                self._line.release()
        finally:
            self._in_line -= 1

    def _handle(self, route: Route, fields: Fields, *, alone: bool) -> SingleSend:
        handle = self._session.new_handle(route, fields)
        handle.was_seen = alone
        return handle

    def _full(self) -> QueueFull:
        return QueueFull(
            f"the queue is full: {self._queue.messages} messages of {self._queue.bytes} bytes are on their way",
            topic=self.topic,
            operation="send",
        )

    def _check_open(self) -> None:
        self._loop.check()
        if self._closed:
            raise Closed(f"{self!r} was closed", topic=self.topic)

    # ending ------------------------------------------------------------------------------------------------

    async def close(self, timeout: float | None = 30) -> None:
        """As ``Producer.close``. If cancelled, it still finishes."""
        deadline = Deadline(timeout)
        self._loop.check()
        if not self._close_ended.is_set():
            await self._loop.call(partial(self.begin_close(), deadline))

    def _prepare_close(self) -> Callable[[Deadline], None]:
        return partial(self._close, self._queue.mark())

    def _close(self, handed_over: Event, deadline: Deadline) -> None:
        handed_over.wait(deadline.remaining(NO_TIMEOUT_S))
        self.sync.close(deadline.timeout_left())

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"


class AsyncStage:
    """A stage whose calls are awaited, one at a time."""

    def __init__(self, loop: ClientLoop, stage: Stage) -> None:
        self.sync = stage
        """The synchronous stage, for use from threads."""
        self._call = loop.call

    @property
    def topic(self) -> str:
        """As ``Stage.topic``."""
        return self.sync.topic

    write = on_thread(Stage.write)
    finish = on_thread(Stage.finish)
    discard = on_thread(Stage.discard)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.discard()

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"
