"""The way of records to the driver, and of what became of them back to the loop.

Records leave the loop once an iteration, in the order of the calls. A thread hands them over, since a driver may take
its time; then it serves the driver's reports, unless another thread does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from mqplug._base.bell import Bell
from mqplug._base.deadline import Deadline
from mqplug._model.errors import Error, PluginError
from mqplug.aio._handle import AsyncSendHandle, ring
from mqplug.aio._thread_pool import Job

if TYPE_CHECKING:
    from mqplug._produce.handle import SendHandle
    from mqplug._produce.queue import SendQueue
    from mqplug.aio._loop import ClientLoop

T = TypeVar("T")

FOREVER = Deadline(None)
COMPUTE_SLICE_S = 0.001  # seconds after which a thread that computes lets the interpreter turn to the loop
YIELD_PAUSE_S = 0.00005
MAX_OUTCOMES_AT_ONCE = 500  # outcomes that the loop takes in before its other tasks have their turn

logger = logging.getLogger("mqplug")


class OrderedWork:
    """Work in order, by one thread at a time: who comes while another works leaves it all to that one."""

    def __init__(self) -> None:
        self._todo: deque[Callable[[], None]] = deque()
        self._working = Lock()

    def add(self, work: Sequence[Callable[[], None]]) -> bool:
        """To be done after what is there; whether a thread is needed for it."""
        self._todo.extend(work)
        return bool(self._todo) and not self._working.locked()

    def work(self) -> None:
        """Do what is there and what comes meanwhile. The loop is not kept waiting for the interpreter's lock."""
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
    """A record on its way. It is what the core's handle wakes when it is settled."""

    __slots__ = ("_bell", "_context", "_outbox", "answer", "droppable", "handle", "left")

    def __init__(self, outbox: AsyncSendQueue, handle: SendHandle, answer: AsyncSendHandle, *, droppable: bool) -> None:
        self.handle = handle
        self.answer = answer
        self.droppable = droppable
        self.left = False
        self._outbox = outbox
        self._context = copy_context()  # what traces a send is to find it
        self._bell: Bell | None = None

    def do(self) -> None:
        """Hand it over."""
        self._context.run(self._outbox.hand_over, self)

    @property
    def dropped(self) -> bool:
        """Whether its send was cancelled before it left the loop."""
        return self.droppable and self.answer.deserted

    def drop(self) -> None:
        """It will not be sent."""
        self._outbox.leave(self)

    # what a thread that waits for it expects of a bell

    def ring(self) -> None:
        """Have whoever waits look again."""
        if self.handle.outcome is not None:
            self._outbox.arrived(self)
        if self._bell is not None:
            self._bell.ring()

    def wait(self, timeout: float) -> None:
        """Wait until it rings, which ends that."""
        bell = self._bell = self._bell or Bell()
        if self.handle.outcome is None:
            bell.wait(timeout)


class AsyncSendQueue:
    """What one producer has on its way."""

    def __init__(self, loop: ClientLoop, queue: SendQueue) -> None:
        self._loop = loop
        self._queue = queue
        self._most, self._most_bytes = queue.max_messages, queue.max_bytes
        self._fresh: list[QueuedRecord | Job[Any]] = []
        self._handing_over = OrderedWork()
        self._awaiting = OrderedWork()
        self._arrived: deque[QueuedRecord] = deque()
        self._told = False
        self._room: asyncio.Future[None] | None = None
        self.messages = self.bytes = 0

    # on the loop's thread ----------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether another record may come."""
        return self.messages < self._most and self.bytes < self._most_bytes

    async def wait_for_room(self, timeout: float | None) -> None:
        """Wait until a record left, or the time is up. One task at a time."""
        room = self._room = self._loop.event_loop.create_future()
        timer = None if timeout is None else self._loop.event_loop.call_later(timeout, ring, room)
        try:
            await room
        finally:
            self._room = None
            if timer is not None:
                timer.cancel()

    def put(self, handle: SendHandle, *, droppable: bool = False) -> AsyncSendHandle:
        """Send a record. A ``droppable`` one is not sent if whoever waits for it is cancelled before it left."""
        answer = AsyncSendHandle(self._loop.event_loop, handle)
        entry = QueuedRecord(self, handle, answer, droppable=droppable)
        handle.waiter = entry  # type: ignore[assignment]  # as good as a bell
        self.messages += 1
        self.bytes += handle.size
        self._add(entry)
        return answer

    def put_work(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have this done when all before is handed over."""
        job = Job(self._loop.pool, work)
        self._add(job)
        return job.future

    def mark(self) -> Event:
        """An event that is set when all that was put until now is handed over."""
        handed_over = Event()
        self.put_work(handed_over.set)
        self._pass_on()
        return handed_over

    def _add(self, fresh: QueuedRecord | Job[Any]) -> None:
        if not self._fresh:
            self._loop.event_loop.call_soon(self._pass_on)
        self._fresh.append(fresh)

    def _pass_on(self) -> None:
        """What came in this iteration of the loop goes to a thread; what was cancelled in it does not."""
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
        """Wake those who wait for what is settled."""
        self._told = False
        for _ in range(min(MAX_OUTCOMES_AT_ONCE, len(self._arrived))):
            entry = self._arrived.popleft()
            self.leave(entry)
            entry.answer.wake()
        if self._arrived:
            self._tell()

    def leave(self, entry: QueuedRecord) -> None:
        """This one is not on its way any more."""
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
        """Give a record to the driver, as soon as that takes it."""
        handle = entry.handle
        try:
            if not self._queue.put(handle):
                self._queue.accept(handle, FOREVER)
        except Error as error:
            handle.failed(error)
        except Exception as error:  # noqa: BLE001 - who waits for the message is told
            handle.unknown(PluginError(f"the message could not be handed over: {error!r}"))
        if not handle.done:
            self._awaiting.add([partial(self._await, handle)])

    def _await(self, handle: SendHandle) -> None:
        """Serve reports until this one is settled."""
        try:
            handle.wait(handle, FOREVER)
        except Error as error:
            logger.warning("serving the reports of sends to topic %r failed: %s", handle.topic, error)

    def arrived(self, entry: QueuedRecord) -> None:
        """It is settled."""
        self._arrived.append(entry)
        self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._loop.pool.tell(self._bring_back)
