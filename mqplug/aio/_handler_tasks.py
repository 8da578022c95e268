"""``AsyncConsumer.run``: a handler in several tasks, with ack on return and nack on raise."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mqplug._consume.handler_threads import (
    HANDLER_BATCH_MESSAGES,
    LANE_CHECK_S,
    handles_by_partition,
    is_held,
    log_failure,
    stopping_on_sigterm,
)
from mqplug._consume.key_lanes import LANE_MESSAGES, KeyLanes, Lane
from mqplug._model.errors import Closed, Error

if TYPE_CHECKING:
    from mqplug._consume.consumer_session import ConsumerSession
    from mqplug._consume.delivery import Delivery
    from mqplug._consume.handler_threads import HandlerOrder
    from mqplug._model.message import Message

logger = logging.getLogger("mqplug")

AsyncHandler = Callable[["Message"], Awaitable[object]]


class ConsumerCalls(NamedTuple):
    """The calls of a consumer that fetch messages, nack them, and leave them for another run."""

    fetch: Callable[[int, float | None], Awaitable[Delivery | None]]
    """Returns up to this many messages within a timeout, as ``Fetcher.next_delivery`` does."""
    nack: Callable[[Message, BaseException], Awaitable[None]]
    take_back: Callable[[Sequence[Message]], Awaitable[None]]
    """Hands out messages again that reached no handler."""


class HandlerTasks(ABC):
    """The tasks of one call of ``run``."""

    def __init__(self, session: ConsumerSession, calls: ConsumerCalls, handler: AsyncHandler) -> None:
        self._session = session
        self._fetcher = session.fetcher
        self._acks = session.acks
        self._calls = calls
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()
        self._fatal: BaseException | None = None

    async def run(self) -> None:
        """Handle messages until ``stop``, close or ``until``, and finish those in hand.

        If cancelled, the handlers are also cancelled.
        """
        with stopping_on_sigterm(self._session.stop):
            try:
                while await self._dispatch():
                    pass
            except asyncio.CancelledError:
                for task in self._tasks:
                    task.cancel()
                raise
            except BaseException:
                self._session.stop()
                raise
            finally:
                await self._drain()
                await self._end()
        if self._fatal is not None:
            raise self._fatal

    @abstractmethod
    async def _dispatch(self) -> bool:
        """Give the next messages to a task. Return False at the end."""

    async def _drain(self) -> None:
        """Wait for all tasks, because they may still nack the messages in hand."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _end(self) -> None:
        """Restore the consumer after the last task."""
        self._fetcher.in_order = True

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="mqplug-run")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _handle(self, message: Message) -> BaseException | None:
        """Call the handler, and ack the message. Return the error if it must be nacked instead."""
        try:
            answer: object = self._handler(message)
            if not inspect.isawaitable(answer):
                self._fail(TypeError("a handler must be an async function, because its result is awaited"))
                return None
            await answer
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            log_failure(self._session, message, error)
            return error
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._fetcher.last_handled = time.monotonic()
        self._acks.ack(message)
        return None

    def _fail(self, error: BaseException) -> None:
        """End the run with an error, which the task that called ``run`` raises."""
        self._fatal = self._fatal or error
        self._session.stop()

    async def _nack(self, message: Message, reason: BaseException) -> None:
        try:
            await self._calls.nack(message, reason)
        except Error as error:
            logger.warning("nack of %r for group %r failed: %s", message, self._session.group, error)


class PartitionTasks(HandlerTasks):
    """Tasks that handle partitions: one task at a time for each."""

    def __init__(self, session: ConsumerSession, calls: ConsumerCalls, handler: AsyncHandler, concurrency: int) -> None:
        super().__init__(session, calls, handler)
        self._free = asyncio.Semaphore(concurrency)

    async def _dispatch(self) -> bool:
        await self._free.acquire()
        try:
            delivery = await self._calls.fetch(HANDLER_BATCH_MESSAGES, None)
        except Closed:
            return False
        if delivery is None:
            self._free.release()
            if self._fetcher.stopping:
                return False
            await self._drain()
            return not self._session.assignment.finished
        self._session.begin_work(delivery)

        def end(task: asyncio.Task[None]) -> None:
            self._session.end_work(delivery, return_rest=True)  # a cancelled task leaves some
            self._free.release()
            self._fetcher.on_settled()

        self._start(self._work(delivery)).add_done_callback(end)
        return True

    async def _work(self, delivery: Delivery) -> None:
        for message in delivery.messages:
            if (error := await self._handle(message)) is not None:
                await self._nack(message, error)
            if self._fetcher.stopping:
                delivery.hold_back()


class LaneTasks(HandlerTasks):
    """Tasks that handle keys: one task at a time for each, as with ``LaneThreads``."""

    def __init__(
        self,
        session: ConsumerSession,
        calls: ConsumerCalls,
        handler: AsyncHandler,
        concurrency: int,
        *,
        by_key: bool,
    ) -> None:
        super().__init__(session, calls, handler)
        self._lanes = KeyLanes(by_key=by_key)
        self._free = asyncio.Semaphore(concurrency)
        self._in_order = not session.shares
        self._most = max(LANE_MESSAGES, 2 * concurrency) if self._in_order else concurrency
        self._changed = asyncio.Event()
        self._fetcher.in_order = False

    async def _dispatch(self) -> bool:
        self._begin(self._lanes.revived())
        most = min(await self._wait_for_room(), HANDLER_BATCH_MESSAGES if self._in_order else 1)
        try:
            delivery = await self._calls.fetch(most, LANE_CHECK_S if self._in_order else None)
        except Closed:
            return False
        if delivery is None and self._fetcher.stopping:
            return False
        if delivery is None and self._session.assignment.finished:
            await self._wait_until(lambda: not self._lanes.messages or self._lanes.holds_nacked)
            return bool(self._lanes.messages) or not self._session.assignment.finished
        if delivery is not None:
            self._begin(self._lanes.add_all(delivery.messages))
        return True

    def _begin(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            self._start(self._work(lane))

    async def _wait_for_room(self) -> int:
        await self._wait_until(
            lambda: self._lanes.messages < self._most or self._lanes.holds_nacked or self._fetcher.stopping
        )
        return max(0, self._most - self._lanes.messages)

    async def _wait_until(self, possible: Callable[[], bool]) -> None:
        while not possible():
            self._changed.clear()
            await self._changed.wait()

    async def _work(self, lane: Lane) -> None:
        """Handle the messages of one lane, one after the other."""
        while True:
            async with self._free:
                message = self._lanes.next(lane, stopping=self._in_order and self._fetcher.stopping)
                if message is None:
                    return
                try:
                    if is_held(message) and (error := await self._handle(message)) is not None:
                        if self._in_order:
                            self._lanes.block(lane, message)  # before it can be delivered again
                        await self._nack(message, error)
                finally:
                    self._lanes.handled()
                    self._changed.set()
                    self._fetcher.on_settled()

    async def _end(self) -> None:
        await super()._end()
        if self._in_order and (waiting := self._lanes.take_waiting()):
            await self._calls.take_back(waiting)


def handler_tasks(
    session: ConsumerSession,
    calls: ConsumerCalls,
    handler: AsyncHandler,
    concurrency: int,
    order: HandlerOrder | None,
) -> HandlerTasks:
    """Return the tasks for the consumer's mode and the requested order."""
    mode = session.driver_session.options.mode
    if handles_by_partition(mode, order):
        return PartitionTasks(session, calls, handler, concurrency)
    return LaneTasks(session, calls, handler, concurrency, by_key=mode != "shared")
