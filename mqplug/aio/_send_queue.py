"""The queue of an asyncio producer: carries records to the driver, and outcomes back to the handles and the loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from mqplug._base.bell import Bell
from mqplug._base.deadline import Deadline, check_timeout
from mqplug._model.errors import Error, PluginError
from mqplug._model.ids import MessageId
from mqplug._model.outcome import SendTimeout
from mqplug._produce.handle import SendHandle
from mqplug.aio._loop import Job

if TYPE_CHECKING:
    from mqplug._produce.handle import SingleSend
    from mqplug._produce.producer_session import ProducerSession
    from mqplug.aio._loop import ClientLoop


T = TypeVar("T")

FOREVER = Deadline(None)
COMPUTE_SLICE_S = 0.001  # after this, a computing thread yields the interpreter to the loop
YIELD_PAUSE_S = 0.00005
MAX_OUTCOMES_AT_ONCE = 500  # before the loop's other tasks run

logger = logging.getLogger("mqplug")


class OrderedWork:
    """Work done in order by one thread at a time. A second thread leaves its work to the busy one."""

    def __init__(self) -> None:
        self._todo: deque[Callable[[], None]] = deque()
        self._working = Lock()

    def add(self, work: Sequence[Callable[[], None]]) -> bool:
        """Append work. Return whether a thread is needed for it."""
        self._todo.extend(work)
        return bool(self._todo) and not self._working.locked()

    def work(self) -> None:
        """Do all work, including work added during the call. Regularly yield the interpreter's lock to the loop."""
        while self._todo and self._working.acquire(blocking=False):
            turn_ends = time.monotonic() + COMPUTE_SLICE_S
            try:
                while self._todo:
                    self._todo.popleft()()
                    if time.monotonic() > turn_ends:
                        time.sleep(YIELD_PAUSE_S)
                        turn_ends = time.monotonic() + COMPUTE_SLICE_S
            finally:
                self._working.release()


class QueuedRecord:
    """A record on its way. It takes the place of the bell that its handle rings when it is settled."""

    __slots__ = ("_bell", "_context", "_queue", "answer", "droppable", "handle", "left")

    def __init__(self, queue: AsyncSendQueue, handle: SingleSend, answer: AsyncSendHandle, *, droppable: bool) -> None:
        self.handle = handle
        self.answer = answer
        self.droppable = droppable
        self.left = False
        self._queue = queue
        self._context = copy_context()  # for instrumentation that traces a send
        self._bell: Bell | None = None

    def do(self) -> None:
        """Hand the record over."""
        self._context.run(self._queue.hand_over, self)

    @property
    def dropped(self) -> bool:
        """Whether the send was cancelled before the record left the loop."""
        return self.droppable and self.answer.deserted

    def drop(self) -> None:
        """Remove the record unsent."""
        self._queue.leave(self)

    # the methods of a bell

    def ring(self) -> None:
        """Report the outcome to the loop, and wake a waiting thread."""
        if self.handle.outcome is not None:
            self._queue.arrived(self)
        if self._bell is not None:
            self._bell.ring()

    def wait(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for the outcome."""
        bell = self._bell = self._bell or Bell()
        if self.handle.outcome is None:
            bell.wait(timeout)


class AsyncSendQueue:
    """The records of one asyncio producer that are on their way."""

    def __init__(self, loop: ClientLoop, session: ProducerSession) -> None:
        self._loop = loop
        self._session = session
        self._most, self._most_bytes = session.queue.max_messages, session.queue.max_bytes
        self._fresh: list[QueuedRecord | Job[Any]] = []
        self._handing_over = OrderedWork()
        self._awaiting = OrderedWork()
        self._arrived: deque[QueuedRecord] = deque()
        self._loop_notified = False
        self._room: asyncio.Future[None] | None = None
        self.messages = self.bytes = 0

    # on the loop's thread ----------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether there is room for another record."""
        return self.messages < self._most and self.bytes < self._most_bytes

    async def wait_for_room(self, timeout: float | None) -> None:
        """Wait until a record leaves the queue or the time is up. One task at a time may call."""
        room = self._room = self._loop.event_loop.create_future()
        timer = None if timeout is None else self._loop.event_loop.call_later(timeout, ring, room)
        try:
            await room
        finally:
            self._room = None
            if timer is not None:
                timer.cancel()

    def put(self, handle: SingleSend, *, droppable: bool = False) -> AsyncSendHandle:
        """Queue a record. A ``droppable`` one is not sent if its caller is cancelled before it leaves the loop."""
        answer = AsyncSendHandle(self._loop.event_loop, handle)
        entry = QueuedRecord(self, handle, answer, droppable=droppable)
        handle.waiter = entry  # type: ignore[assignment]  # it has the methods of a bell
        self.messages += 1
        self.bytes += handle.size
        self._add(entry)
        return answer

    def put_work(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Call ``work`` once all earlier records are handed over."""
        job = Job(self._loop.pool, work)
        self._add(job)
        return job.future

    def mark(self) -> Event:
        """Return an event that is set once all queued records are handed over."""
        handed_over = Event()
        self.put_work(handed_over.set)
        self._pass_on()
        return handed_over

    def _add(self, fresh: QueuedRecord | Job[Any]) -> None:
        if not self._fresh:
            self._loop.event_loop.call_soon(self._pass_on)
        self._fresh.append(fresh)

    def _pass_on(self) -> None:
        """Pass this iteration's records to a thread, except those that were cancelled."""
        fresh, self._fresh = self._fresh, []
        wanted: list[Callable[[], None]] = []
        for each in fresh:
            if each.dropped:
                each.drop()
            else:
                wanted.append(each.do)
        if self._handing_over.add(wanted):
            self._loop.pool.start(self._work)

    def _bring_back(self) -> None:
        """Wake the callers whose records are settled."""
        self._loop_notified = False
        for _ in range(min(MAX_OUTCOMES_AT_ONCE, len(self._arrived))):
            entry = self._arrived.popleft()
            self.leave(entry)
            entry.answer.wake()
        if self._arrived:
            self._notify_loop()

    def leave(self, entry: QueuedRecord) -> None:
        """Remove a record that is no longer on its way."""
        if entry.left:
            return
        entry.left = True
        self.messages -= 1
        self.bytes -= entry.handle.size
        if self._room is not None:
            ring(self._room)

    # on other threads --------------------------------------------------------------------------------------

    def _work(self) -> None:
        self._handing_over.work()
        self._awaiting.work()

    def hand_over(self, entry: QueuedRecord) -> None:
        """Hand a record over to the driver, as soon as there is room."""
        handle = entry.handle
        try:
            self._session.submit_single(handle, FOREVER)
        except Error as error:
            handle.failed(error)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            handle.unknown(PluginError(f"the message could not be handed over: {error!r}"))
        if not handle.done:
            self._awaiting.add([partial(self._await, handle)])

    def _await(self, handle: SingleSend) -> None:
        """Serve reports until this record is settled."""
        try:
            handle.wait(handle, FOREVER)
        except Error as error:
            logger.warning("serving the reports of sends to topic %r failed: %s", handle.topic, error)

    def arrived(self, entry: QueuedRecord) -> None:
        """Report a settled record to the loop."""
        self._arrived.append(entry)
        self._notify_loop()

    def _notify_loop(self) -> None:
        if not self._loop_notified:
            self._loop_notified = True
            self._loop.pool.call_on_loop(self._bring_back)


class AsyncSendHandle:
    """The handle of a submitted record: ``await`` it for the id, or ``await handle.result(timeout)``."""

    __slots__ = ("_event_loop", "_handle", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop, handle: SendHandle) -> None:
        self._event_loop = loop
        self._handle = handle
        self._waiters: list[asyncio.Future[None]] = []

    async def result(self, timeout: float | None = 30) -> MessageId:
        """As ``SendHandle.result``. If cancelled, only the wait ends; the send continues."""
        check_timeout(timeout)
        handle = self._handle
        if not handle.done:
            await self._wait(timeout)
        if not handle.done:
            raise self._timed_out()
        return handle.result()

    def __await__(self) -> Generator[object, None, MessageId]:
        return self.result(None).__await__()

    @property
    def done(self) -> bool:
        """As ``SendHandle.done``."""
        return self._handle.done

    @property
    def error(self) -> Error | None:
        """As ``SendHandle.error``."""
        return self._handle.error

    async def _wait(self, timeout: float | None) -> None:
        waiter = self._event_loop.create_future()
        self._waiters.append(waiter)
        timer = None if timeout is None else self._event_loop.call_later(timeout, ring, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            self._waiters.remove(waiter)

    def _timed_out(self) -> SendTimeout:
        error = self._handle.timed_out()
        error.handle = self  # type: ignore[assignment]  # asyncio callers get the asyncio handle
        return error

    # for the send queue, on the loop's thread

    @property
    def deserted(self) -> bool:
        """Whether all callers that waited were cancelled."""
        return bool(self._waiters) and all(waiter.cancelled() for waiter in self._waiters)

    def wake(self) -> None:
        """Wake all waiting callers, because the record is settled."""
        for waiter in self._waiters:
            ring(waiter)

    def __repr__(self) -> str:
        return f"<Async{repr(self._handle)[1:]}"


def ring(waiter: asyncio.Future[None]) -> None:
    """Wake a waiting caller, unless it was cancelled."""
    if not waiter.done():
        waiter.set_result(None)
