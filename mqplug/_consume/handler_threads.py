"""``Consumer.run``: a handler on several threads, with ack on return and nack on raise, until SIGTERM or ``stop``."""

from __future__ import annotations

import logging
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from mqplug._base.deadline import Deadline
from mqplug._consume.key_lanes import LANE_MESSAGES, KeyLanes, Lane
from mqplug._consume.retries import Reject
from mqplug._model.errors import Closed, Error
from mqplug.spi._actions import SHARED_MODES

if TYPE_CHECKING:
    from mqplug._consume.consumer_session import ConsumerSession
    from mqplug._consume.delivery import Delivery
    from mqplug._model.message import Message
    from mqplug.spi._actions import Mode

logger = logging.getLogger("mqplug")

HANDLER_BATCH_MESSAGES = 100  # the most of one partition that a thread takes at a time
LANE_CHECK_S = 0.1  # between checks whether a nacked message still blocks those of its key

Handler = Callable[["Message"], object]
HandlerOrder = Literal["partition", "key"]


class HandlerThreads(ABC):
    """The threads of one call of ``run``. The calling thread receives."""

    def __init__(self, session: ConsumerSession, handler: Handler, threads: int) -> None:
        self._session = session
        self._fetcher = session.fetcher
        self._acks = session.acks
        self._handler = handler
        self._threads = threads
        self._fatal: BaseException | None = None

    def run(self) -> None:
        """Handle messages until ``stop``, close or ``until``, and finish those in hand."""
        stop = self._session.stop
        with stopping_on_sigterm(stop), ThreadPoolExecutor(self._threads, "mqplug-run") as pool:
            try:
                while self._dispatch(pool):
                    pass
            except BaseException:
                stop()
                raise
            finally:
                self._end()
        if self._fatal is not None:
            raise self._fatal

    @abstractmethod
    def _dispatch(self, pool: ThreadPoolExecutor) -> bool:
        """Give the next messages to a thread. Return False at the end."""

    def _end(self) -> None:
        """Restore the consumer. No more messages come, but threads may still be at work."""
        self._fetcher.in_order = True

    def _handle(self, message: Message) -> Exception | None:
        """Call the handler, and ack the message. Return the error if it must be nacked instead."""
        try:
            self._handler(message)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            log_failure(self._session, message, error)
            return error
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that called run
            self._fatal = self._fatal or error
            self._fetcher.stopping = True
        else:
            self._acks.ack(message)
        finally:
            self._fetcher.last_handled = time.monotonic()
        return None

    def _nack(self, message: Message, reason: Exception) -> None:
        try:
            self._acks.nack(message, None, reason)
        except Error as error:
            logger.warning("nack of %r for group %r failed: %s", message, self._session.group, error)


class PartitionThreads(HandlerThreads):
    """Threads that handle partitions: one thread at a time for each."""

    def __init__(self, session: ConsumerSession, handler: Handler, threads: int) -> None:
        super().__init__(session, handler, threads)
        self._free = threading.Semaphore(threads)

    def _dispatch(self, pool: ThreadPoolExecutor) -> bool:
        self._free.acquire()
        try:
            delivery = self._fetcher.next_delivery(Deadline(None), HANDLER_BATCH_MESSAGES)
        except Closed:
            return False
        if delivery is None:
            self._free.release()
            if self._fetcher.stopping:
                return False
            self._drain()
            return not self._session.assignment.finished
        self._session.begin_work(delivery)
        pool.submit(self._work, delivery)
        return True

    def _drain(self) -> None:
        """Wait until every thread is free, because they may still nack the messages in hand."""
        for _ in range(self._threads):
            self._free.acquire()
        for _ in range(self._threads):
            self._free.release()

    def _work(self, delivery: Delivery) -> None:
        try:
            for message in delivery.messages:
                if (error := self._handle(message)) is not None:
                    self._nack(message, error)
                if self._fetcher.stopping:
                    delivery.hold_back()
        finally:
            self._session.end_work(delivery)
            self._free.release()
            self._fetcher.on_settled()


class LaneThreads(HandlerThreads):
    """Threads that handle keys: one thread at a time for each.

    In the shared modes, a message goes to a free thread. In ordered mode, more messages are in hand, so that a busy key
    leaves enough for the other threads, and a nacked message holds back only those of its key.
    """

    def __init__(self, session: ConsumerSession, handler: Handler, threads: int, *, by_key: bool) -> None:
        super().__init__(session, handler, threads)
        self._lanes = KeyLanes(by_key=by_key)
        self._changed = threading.Condition()
        self._in_order = not session.shares
        self._most = max(LANE_MESSAGES, 2 * threads) if self._in_order else threads
        self._fetcher.in_order = False

    def _dispatch(self, pool: ThreadPoolExecutor) -> bool:
        self._begin(pool, KeyLanes.revived)
        most = min(self._wait_for_room(), HANDLER_BATCH_MESSAGES if self._in_order else 1)
        try:
            delivery = self._fetcher.next_delivery(Deadline(LANE_CHECK_S if self._in_order else None), most)
        except Closed:
            return False
        if self._fetcher.stopping and delivery is None:
            return False
        if delivery is None and self._session.assignment.finished:
            self._drain()
            return bool(self._lanes.messages) or not self._session.assignment.finished
        if delivery is not None:
            messages = delivery.messages
            self._begin(pool, lambda lanes: lanes.add_all(messages))
        return True

    def _begin(self, pool: ThreadPoolExecutor, find: Callable[[KeyLanes], list[Lane]]) -> None:
        """Start work on the lanes that this function finds."""
        with self._changed:
            found = find(self._lanes)
        for lane in found:
            pool.submit(self._work, lane)

    def _wait_for_room(self) -> int:
        """Wait until more messages may be in hand, and return how many more. At 0, only nacked ones are delivered."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._lanes.messages < self._most or self._lanes.holds_nacked or self._fetcher.stopping
            )
            return max(0, self._most - self._lanes.messages)

    def _drain(self) -> None:
        """Wait until no message is in hand or one was nacked."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lanes.messages or self._lanes.holds_nacked)

    def _end(self) -> None:
        super()._end()
        if self._in_order:
            with self._changed:
                waiting = self._lanes.take_waiting()
            self._acks.take_back(waiting)

    def _work(self, lane: Lane) -> None:
        """Handle the messages of one lane, one after the other."""
        while (message := self._next(lane)) is not None:
            try:
                if is_held(message) and (error := self._handle(message)) is not None:
                    if self._in_order:
                        with self._changed:  # before it can be delivered again
                            self._lanes.block(lane, message)
                    self._nack(message, error)
            finally:
                with self._changed:
                    self._lanes.handled()
                    self._changed.notify_all()
                self._fetcher.on_settled()

    def _next(self, lane: Lane) -> Message | None:
        with self._changed:
            return self._lanes.next(lane, stopping=self._in_order and self._fetcher.stopping)


def log_failure(session: ConsumerSession, message: Message, error: BaseException) -> None:
    """Log that a handler failed: in one line if the message is delivered again, with a traceback at the last attempt.

    If attempts are unlimited, the first one has the traceback.
    """
    acks = session.acks
    if acks.is_last(message, error):
        has_traceback = not isinstance(error, Reject) or error.__cause__ is not None
        outcome = "it goes to the dead letters"
    else:
        has_traceback = message.attempt == 1 and not acks.retries_end
        again = "it will be delivered again"
        outcome = f"without dead_letter= {again}" if isinstance(error, Reject) else again
    logger.warning(
        "the handler of group %r failed on %r at attempt %d, %s: %s",
        session.group, message, message.attempt, outcome, " ".join(f"{type(error).__name__}: {error}".split()),
        exc_info=error if has_traceback else None,
    )  # fmt: skip


def is_held(message: Message) -> bool:
    """Return whether this consumer still has a message, which may have waited in its lane."""
    delivery: Delivery = message._batch.delivery
    return delivery.live and (delivery.still_holds is None or delivery.still_holds())


def handles_by_partition(mode: Mode, order: HandlerOrder | None) -> bool:
    """Return whether one thread at a time handles a partition. Raise ``ValueError`` for an order the mode lacks."""
    if order not in {None, "partition", "key"}:
        raise ValueError(f"order must be 'partition' or 'key', not {order!r}")
    if mode == "shared" and order is not None:
        raise ValueError(f"order={order!r}: members in mode='shared' have no order; mode='key_shared' keeps it by key")
    if mode == "key_shared" and order == "partition":
        raise ValueError("order='partition': members in mode='key_shared' share a partition; mode='ordered' does not")
    return mode not in SHARED_MODES and order != "key"


def handler_threads(
    session: ConsumerSession, handler: Handler, threads: int, order: HandlerOrder | None
) -> HandlerThreads:
    """Return the threads for the consumer's mode and the requested order."""
    mode = session.driver_session.options.mode
    if handles_by_partition(mode, order):
        return PartitionThreads(session, handler, threads)
    return LaneThreads(session, handler, threads, by_key=mode != "shared")


Stop = Callable[[], None]

_stops: Final[list[Stop]] = []
"""The functions that SIGTERM calls. Blocks may end in any order, because those of an event loop overlap."""
_before: Any = None


@contextmanager
def stopping_on_sigterm(stop: Stop) -> Iterator[None]:
    """Call ``stop`` on SIGTERM within this block, then any earlier handler. Works only in the main thread."""
    global _before
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _stops.append(stop)
    if len(_stops) == 1:
        _before = signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        yield
    finally:
        _stops.remove(stop)
        if not _stops:
            signal.signal(signal.SIGTERM, _before)


def _on_sigterm(number: int, frame: Any) -> None:
    for stop in _stops:
        stop()
    if callable(_before):
        _before(number, frame)
