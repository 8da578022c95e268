"""The asyncio consumer: a thread fetches batches, and the loop hands them out message by message.

A message counts as delivered once a caller has it. Messages that a seek, a hand-over or a pause takes back are not
handed out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Self

from mqplug._base.deadline import Deadline, check_timeout
from mqplug._consume.consumer import EMPTY_BATCH, Consumer, check_most
from mqplug._consume.fetching import POLL_MESSAGES
from mqplug._model.batch import Batch
from mqplug._model.checks import whole_number
from mqplug._model.errors import Closed, ConcurrentUse
from mqplug._model.ids import MessageId
from mqplug._model.message import Message
from mqplug.aio._assignment_callbacks import Callbacks
from mqplug.aio._loop import AsyncChild, ClientLoop, at_once, noted, on_thread

if TYPE_CHECKING:
    from mqplug._consume.consumer_session import ConsumerSession
    from mqplug._consume.delivery import Delivery
    from mqplug._consume.handler_threads import HandlerOrder
    from mqplug.aio._handler_tasks import AsyncHandler

FETCH_END_S = 1.0


class CancellableDeadline(Deadline):
    """A deadline that can be brought forward."""

    __slots__ = ()

    def cut(self) -> None:
        """Expire now."""
        self._end = 0.0


class AsyncConsumer(AsyncChild):
    """A consumer whose calls are awaited, except ``stop``. A cancelled receive loses no message: the next one gets it.

    One task at a time may receive; any task may make the other calls.
    """

    def __init__(
        self,
        loop: ClientLoop,
        session: ConsumerSession,
        callbacks: Callbacks,
        on_closed: Callable[[AsyncConsumer], None],
    ) -> None:
        super().__init__(loop, on_closed)
        self.sync = Consumer(session)
        """The synchronous consumer, for use from threads."""
        self._session = session
        self._callbacks = callbacks
        self._call = callbacks.call
        self._messages: Iterator[Message] = iter(())
        self._fetching: asyncio.Future[Delivery | None] | None = None
        self._receiving = False

    @property
    def group(self) -> str | None:
        """As ``Consumer.group``."""
        return self.sync.group

    @property
    def late_acks(self) -> int:
        """As ``Consumer.late_acks``."""
        return self.sync.late_acks

    # receiving ---------------------------------------------------------------------------------------------

    async def receive(self, timeout: float | None = None) -> Message | None:
        """As ``Consumer.receive``. If cancelled, it has taken no message."""
        if timeout is not None:
            check_timeout(timeout)  # even if a message is at hand
        if self._loop.is_due:
            await self._loop.give_way()
        deadline = None
        while True:
            if not self._receiving:
                for message in self._messages:
                    return message
            deadline = deadline or CancellableDeadline(timeout)
            delivery = await self._fetch(deadline, self._session.fetch_messages)
            if delivery is None:
                return None
            self._messages = delivery.messages

    async def receive_many(self, most: int, timeout: float | None = None) -> Batch:
        """As ``Consumer.receive_many``. If cancelled, it has taken no message."""
        check_most(most)
        deadline = CancellableDeadline(timeout)
        while True:
            delivery = await self._fetch(deadline, most, anew=True)
            if delivery is None:
                return EMPTY_BATCH
            if batch := delivery.hand_out_all():
                return batch

    def batches(self, most: int = POLL_MESSAGES) -> AsyncIterator[Batch]:
        """As ``Consumer.batches``."""
        check_most(most)
        return self._batches(most)

    async def _batches(self, most: int) -> AsyncIterator[Batch]:
        while True:
            try:
                batch = await self.receive_many(most)
            except Closed:
                return
            if not batch:
                return
            yield batch

    async def _read_to_end(self, timeout: float | None) -> AsyncIterator[Message]:
        """Iterate over the messages up to ``until``. Wait up to ``timeout`` seconds for each next one."""
        while True:
            try:
                message = await self.receive(timeout)
            except Closed:
                return
            if message is None:
                self._session.check_read_to_end(timeout)
                return
            yield message

    def __aiter__(self) -> Self:
        """Iterate over all messages, forever. Ends at ``stop``, at ``close``, and at ``until``."""
        return self

    async def __anext__(self) -> Message:
        if not self._receiving and time.monotonic() < self._loop.turn_ends:
            for message in self._messages:
                return message
        try:
            received = await self.receive()
        except Closed:
            raise StopAsyncIteration from None
        if received is None:
            raise StopAsyncIteration
        return received

    async def _fetch(self, deadline: CancellableDeadline, most: int, *, anew: bool = False) -> Delivery | None:
        """Fetch on a thread. After a cancellation the next call gets the delivery; with ``anew`` it is put back."""
        self._loop.check()
        if self._receiving or self._callbacks.inside:
            raise ConcurrentUse("another task is receiving from this consumer", operation="receive")
        self._receiving = True
        try:
            found = await self._end_fetch()
            if anew:
                self._session.fetcher.return_rest()
            elif found is not None and found.live and found.left:
                return found
            self._fetching = self._loop.pool.start(partial(self._session.fetcher.next_delivery, deadline, most))
            self._fetching.add_done_callback(_look_at)
            try:
                await asyncio.wait({self._fetching})
            except asyncio.CancelledError:
                deadline.cut()
                self._session.driver_session.wake()
                raise
            return await self._end_fetch()
        finally:
            self._receiving = False

    async def _end_fetch(self) -> Delivery | None:
        """Wait for the last fetch, even a cancelled one. Return its delivery."""
        fetching = self._fetching
        if fetching is None:
            return None
        await asyncio.wait({fetching})
        self._fetching = None
        return fetching.result()

    async def run(self, handler: AsyncHandler, *, concurrency: int = 1, order: HandlerOrder | None = None) -> None:
        """As ``Consumer.run``, with an ``async`` handler, in ``concurrency`` tasks.

        If cancelled, the handlers are also cancelled, and their messages are neither acked nor nacked.
        """
        from mqplug.aio._handler_tasks import ConsumerCalls, handler_tasks

        self._check_run(handler, concurrency, order)
        acks = self._session.acks
        calls = ConsumerCalls(
            fetch=lambda most, timeout: self._fetch(CancellableDeadline(timeout), most),
            nack=lambda message, reason: self.nack(message, reason=reason),
            take_back=lambda messages: self._callbacks.call(partial(acks.take_back, messages)),
        )
        tasks = handler_tasks(self._session, calls, handler, concurrency, order)
        await self._end_fetch()
        self._session.fetcher.return_rest()
        await tasks.run()
        if not self._closed:
            await self._callbacks.call(partial(self._session.commit_after_run, Deadline(30)))

    def _check_run(self, handler: AsyncHandler, concurrency: int, order: HandlerOrder | None) -> None:
        """Raise unless ``run`` accepts these arguments."""
        from mqplug._consume.handler_threads import handles_by_partition

        whole_number("concurrency", concurrency, 1)
        if not callable(handler):
            raise TypeError(f"a handler must be callable, and {type(handler).__name__} is not")
        self._loop.check()
        self._session.check_can_run()
        handles_by_partition(self._session.driver_session.options.mode, order)

    # settling ----------------------------------------------------------------------------------------------

    async def ack(self, message: Message | MessageId) -> None:
        """As ``Consumer.ack``."""
        if isinstance(message, Message):
            self.sync.ack(message)
        else:
            await self._callbacks.call(partial(self.sync.ack, message))

    ack_through = on_thread(Consumer.ack_through)
    nack = on_thread(Consumer.nack)

    @asynccontextmanager
    async def handling(self, message: Message) -> AsyncIterator[Message]:
        """As ``Consumer.handling``. If cancelled, the message is neither acked nor nacked."""
        try:
            yield message
        except Exception as error:
            await self.nack(message, reason=error)
            raise
        await self.ack(message)

    commit = on_thread(Consumer.commit)

    # positions ---------------------------------------------------------------------------------------------

    seek = noted(on_thread(Consumer.seek), "If cancelled, it may or may not have taken effect.")
    position = at_once(Consumer.position)
    committed = on_thread(Consumer.committed)
    watermarks = on_thread(Consumer.watermarks)
    assignment = at_once(Consumer.assignment)
    state = on_thread(Consumer.state)
    statistics = at_once(Consumer.statistics)

    # pausing -----------------------------------------------------------------------------------------------

    pause = on_thread(Consumer.pause)
    resume = on_thread(Consumer.resume)

    # ending ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """As ``Consumer.stop``. It is not awaited, so that a signal handler can call it."""
        self.sync.stop()

    async def close(self, timeout: float | None = 30) -> None:
        """As ``Consumer.close``. If cancelled, it still finishes."""
        deadline = Deadline(timeout)
        self._loop.check()
        if self._close_ended.is_set() or (self._closed and self._callbacks.inside):
            return
        await self._callbacks.call(partial(self.begin_close(), deadline))
        if self._fetching is not None and not self._callbacks.inside:
            await asyncio.wait({self._fetching}, timeout=FETCH_END_S)

    def _prepare_close(self) -> Callable[[Deadline], None]:
        return self._close

    def _close(self, deadline: Deadline) -> None:
        self.sync.close(deadline.timeout_left())

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"


def _look_at(fetching: asyncio.Future[Delivery | None]) -> None:
    """Mark the error of a fetch as seen, because the next receive, if any, raises it."""
    if not fetching.cancelled():
        fetching.exception()
