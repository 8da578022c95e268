"""``Consumer.run``: a handler on several threads, with ack on return and nack on raise.

In order, one partition is one thread's at a time; in ``key_shared``, one key is. The calling thread receives.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mqplug._base.deadline import Deadline
from mqplug._model.errors import Closed, Error

if TYPE_CHECKING:
    from mqplug._consume.delivery import Delivery
    from mqplug._consume.session import ConsumerSession
    from mqplug._model.message import Message

logger = logging.getLogger("mqplug")

HANDLER_BATCH_MESSAGES = 100  # of one partition, that a thread takes at once

Handler = Callable[["Message"], object]


class HandlerThreads:
    """The threads of one call of ``run``."""

    def __init__(self, session: ConsumerSession, handler: Handler, threads: int) -> None:
        self._session = session
        self._fetcher = session.fetcher
        self._acks = session.acks
        self._handler = handler
        self._threads = threads
        self._fetch_messages = 1 if session.shares else HANDLER_BATCH_MESSAGES
        self._free = threading.Semaphore(threads)
        self._lock = threading.Lock()
        self._lanes: dict[Hashable, deque[Message]] = {}
        self._fatal: BaseException | None = None

    def run(self) -> None:
        """Handle messages until ``stop``, close or ``until``. Those in hand are finished."""
        stop = self._session.stop
        with stopping_on_sigterm(stop), ThreadPoolExecutor(self._threads, "mqplug-run") as pool:
            try:
                while self._dispatch(pool):
                    pass
            except BaseException:
                stop()
                raise
        if self._fatal is not None:
            raise self._fatal

    def _dispatch(self, pool: ThreadPoolExecutor) -> bool:
        """Give the next messages to a free thread. Return False at the end."""
        self._free.acquire()
        try:
            delivery = self._session.next_delivery(Deadline(None), self._fetch_messages)
        except Closed:
            return False
        if delivery is None:
            self._free.release()
            if self._fetcher.stopping:
                return False
            self._drain()
            return not self._session.assignment.finished
        if self._session.shares:
            self._enqueue(pool, delivery)
        else:
            self._session.begin_work(delivery)
            pool.submit(self._work_in_order, delivery)
        return True

    def _drain(self) -> None:
        """Wait until every thread is free: they may still nack the messages in hand."""
        for _ in range(self._threads):
            self._free.acquire()
        for _ in range(self._threads):
            self._free.release()

    def _work_in_order(self, delivery: Delivery) -> None:
        try:
            for message in delivery.messages:
                self._handle(message)
                if self._fetcher.stopping:
                    delivery.hold_back()
        finally:
            self._session.end_work(delivery)
            self._done()

    def _enqueue(self, pool: ThreadPoolExecutor, delivery: Delivery) -> None:
        """Have a message handled, behind those of its key. The receiving thread calls this, in order."""
        message = next(delivery.messages, None)
        if message is None:  # a seek or a hand-over came first
            self._done()
            return
        lane = (message.topic, message.key) if self._keeps_lanes and message.key is not None else object()
        with self._lock:
            waiting = self._lanes.get(lane)
            if waiting is not None:
                waiting.append(message)
                return
            self._lanes[lane] = deque([message])
        pool.submit(self._empty, lane)

    def _empty(self, lane: Hashable) -> None:
        """Handle the messages of one key, one after the other."""
        while True:
            with self._lock:
                if not self._lanes[lane]:
                    del self._lanes[lane]
                    return
                message = self._lanes[lane].popleft()
            try:
                self._handle(message)
            finally:
                self._done()

    @property
    def _keeps_lanes(self) -> bool:
        return self._session.driver_session.options.mode == "key_shared"

    def _done(self) -> None:
        self._free.release()
        self._fetcher.on_settled()

    def _handle(self, message: Message) -> None:
        try:
            self._handler(message)
        except Exception as error:
            logger.warning("the handler of group %r failed on %r", self._session.group, message, exc_info=error)
            self._give_back(message, error)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that called run
            self._fatal = self._fatal or error
            self._fetcher.stopping = True
        else:
            self._acks.ack(message)
        self._fetcher.last_poll = time.monotonic()

    def _give_back(self, message: Message, reason: Exception) -> None:
        try:
            self._acks.nack(message, None, reason)
        except Error as error:
            logger.warning("nack of %r for group %r failed: %s", message, self._session.group, error)


@contextmanager
def stopping_on_sigterm(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on SIGTERM within this block, and any handler set before. Works in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_sigterm(number: int, frame: Any) -> None:
        stop()
        if callable(before):
            before(number, frame)

    before = signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
