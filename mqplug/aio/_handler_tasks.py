"""``AsyncConsumer.run``: a handler in several tasks, with ack on return and nack on raise.

In ordered mode one task at a time handles a partition; in ``key_shared``, a key.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any

from mqplug._consume.handler_threads import HANDLER_BATCH_MESSAGES, stopping_on_sigterm
from mqplug._model.errors import Closed, Error

if TYPE_CHECKING:
    from mqplug._consume.delivery import Delivery
    from mqplug._consume.session import ConsumerSession
    from mqplug._model.message import Message

logger = logging.getLogger("mqplug")

AsyncHandler = Callable[["Message"], Awaitable[object]]
Fetch = Callable[[int], Awaitable["Delivery | None"]]
GiveBack = Callable[["Message", BaseException], Awaitable[None]]


class HandlerTasks:
    """The tasks of one call of ``run``."""

    def __init__(
        self, session: ConsumerSession, fetch: Fetch, give_back: GiveBack, handler: AsyncHandler, concurrency: int
    ) -> None:
        self._session = session
        self._fetcher = session.fetcher
        self._acks = session.acks
        self._fetch = fetch
        self._fetch_messages = 1 if session.shares else HANDLER_BATCH_MESSAGES
        self._give_back = give_back
        self._handler = handler
        self._free = asyncio.Semaphore(concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes: dict[Hashable, deque[Message]] = {}
        self._fatal: BaseException | None = None

    async def run(self) -> None:
        """Handle messages until ``stop``, close or ``until``; finish those in hand. Cancelled, cancel the handlers."""
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
        if self._fatal is not None:
            raise self._fatal

    async def _drain(self) -> None:
        """Wait for all tasks: they may still nack the messages in hand."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _dispatch(self) -> bool:
        """Give the next messages to a task. Return False at the end."""
        await self._free.acquire()
        try:
            delivery = await self._fetch(self._fetch_messages)
        except Closed:
            return False
        if delivery is None:
            self._free.release()
            if self._fetcher.stopping:
                return False
            await self._drain()
            return not self._session.assignment.finished
        if self._session.shares:
            self._start(self._work_alone(delivery))
        else:
            self._start_in_order(delivery)
        return True

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="mqplug-run")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _start_in_order(self, delivery: Delivery) -> None:
        """Have a task handle messages of one partition, which is busy meanwhile."""
        self._session.begin_work(delivery)

        def end(task: asyncio.Task[None]) -> None:
            self._session.end_work(delivery, return_rest=True)  # there is some where the task was cancelled
            self._done()

        self._start(self._work_in_order(delivery)).add_done_callback(end)

    async def _work_in_order(self, delivery: Delivery) -> None:
        for message in delivery.messages:
            await self._handle(message)
            if self._fetcher.stopping:
                delivery.hold_back()

    async def _work_alone(self, delivery: Delivery) -> None:
        message = next(delivery.messages, None)
        if message is None:  # a seek or a hand-over came first
            self._done()
            return
        keeps_lanes = self._session.driver_session.options.mode == "key_shared" and message.key is not None
        lane = (message.topic, message.key) if keeps_lanes else object()
        if lane in self._lanes:  # the task that handles this key now handles this message too
            self._lanes[lane].append(message)
            return
        self._lanes[lane] = deque([message])
        await self._empty(lane)

    async def _empty(self, lane: Hashable) -> None:
        """Handle the messages of one key, one after the other."""
        try:
            while self._lanes[lane]:
                try:
                    await self._handle(self._lanes[lane].popleft())
                finally:
                    self._done()
        finally:
            del self._lanes[lane]

    def _done(self) -> None:
        self._free.release()
        self._fetcher.on_settled()

    async def _handle(self, message: Message) -> None:
        """Call the handler, and settle its message."""
        try:
            answer: object = self._handler(message)
            if not inspect.isawaitable(answer):
                self._fail(TypeError("a handler is an async function: what it returns is awaited"))
                return
            await answer
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            logger.warning("the handler of group %r failed on %r", self._session.group, message, exc_info=error)
            await self._return(message, error)
        except BaseException as error:
            self._fail(error)
            raise
        else:
            self._acks.ack(message)
        self._fetcher.last_poll = time.monotonic()

    def _fail(self, error: BaseException) -> None:
        """End the run with an error, which the task that called ``run`` raises."""
        self._fatal = self._fatal or error
        self._session.stop()

    async def _return(self, message: Message, reason: BaseException) -> None:
        try:
            await self._give_back(message, reason)
        except Error as error:
            logger.warning("nack of %r for group %r failed: %s", message, self._session.group, error)
