"""Producers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Literal

import attrs

from mqplug._closing import Closable, close_native
from mqplug._deadline import Deadline
from mqplug._errors import (
    Closed,
    CloseIncomplete,
    Error,
    MessageTooLarge,
    OutcomeUnknown,
    QueueFull,
    SendFailed,
    Timeout,
)
from mqplug._handle import SendHandle
from mqplug._ids import MessageId
from mqplug._partitioners import Partitioner
from mqplug._record import HeadersArgument, Record, check, check_declared, takes_everything

if TYPE_CHECKING:
    from mqplug._backend import Backend
    from mqplug.spi._descriptor import Capabilities
    from mqplug.spi._drivers import ProducerDriver

SLICE = 0.1
QUEUE_MESSAGES = 100_000


@attrs.frozen
class Route:
    """Where the records of one topic go."""

    topic: str
    partitions: int
    choose: Partitioner | None  # None where the driver partitions natively


class Producer(Closable):
    """Sends messages to one topic, or to any. Made by ``Client.producer``. Any thread may use it."""

    def __init__(
        self,
        backend: Backend,
        driver: ProducerDriver,
        topic: str | None,
        route: Callable[[str, Deadline], Route],
        limits: tuple[Capabilities, int],
        on_closed: Callable[[Producer], None],
    ) -> None:
        super().__init__()
        self.topic = topic
        self._backend = backend
        self._driver = driver
        self._find_route = route
        self._routes: dict[str, Route] = {}
        able, self._queue_bytes = limits
        self._largest = able.message_max_bytes
        self._narrow = None if takes_everything(able) else able
        self._on_closed = on_closed
        self._lock = Lock()
        self._pumping = Lock()
        self._on_its_way: deque[SendHandle] = deque()
        self._bytes = 0
        self._unseen: list[SendHandle] = []
        self._holds_something = True

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
        handle = self._handle(deadline, value, key, headers, timestamp, partition, topic)
        self._accept_one(handle, deadline, "block")
        handle.looked_at = True
        return handle.result(None if timeout is None else deadline.remaining())

    def submit(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: HeadersArgument = (),
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        topic: str | None = None,
        when_full: Literal["block", "raise"] = "block",
        timeout: float | None = 30,
    ) -> SendHandle:
        """Send one message without waiting for it; its handle has ``result(timeout)``.

        When the queue is full this waits for room, for ``timeout`` at most, or raises ``QueueFull`` at once. A failed
        message that nobody looked at raises at ``flush`` or ``close``.
        """
        deadline = Deadline(timeout)
        handle = self._handle(deadline, value, key, headers, timestamp, partition, topic)
        self._accept_one(handle, deadline, when_full)
        return handle

    def _accept_one(self, handle: SendHandle, deadline: Deadline, when_full: Literal["block", "raise"]) -> None:
        if handle.error is not None:
            handle.looked_at = True
            raise handle.error
        self._accept([handle], handle.size, deadline, when_full)

    def send_many(self, records: Iterable[Record | bytes], *, timeout: float | None = 30) -> list[MessageId]:
        """Send messages as one batch and wait for all; their ids in the same order.

        Raises ``SendFailed`` if any failed: its ``results`` has an id or an error for each.
        """
        deadline = Deadline(timeout)
        handles = [self._handle(deadline, *_fields(record)) for record in records]
        self._check_open()
        if good := [handle for handle in handles if not handle.done]:
            self._accept(good, sum(handle.size for handle in good), deadline, "block")
        results = [_result(handle, deadline) for handle in handles]
        failed = [result for result in results if isinstance(result, Error)]
        if failed:
            raise SendFailed(
                f"{len(failed)} of {len(results)} messages failed, first: {failed[0]}",
                results=results, backend=self._backend.name, topic=self.topic, operation="send_many",
            ) from failed[0]  # fmt: skip
        return [result for result in results if isinstance(result, MessageId)]

    def flush(self, timeout: float | None = 30) -> None:
        """Wait until all that was accepted before is settled. Raises what failed and nobody looked at."""
        deadline = Deadline(timeout)
        self._check_open()
        self._drain(deadline)
        self._raise_unseen("flush")

    def _drain(self, deadline: Deadline) -> None:
        with self._lock:
            waiting = list(self._on_its_way)
        if waiting:
            self._driver.flush(deadline.remaining(SLICE))
        for handle in waiting:
            if not handle.done:
                self._wait(handle, deadline)
            if not handle.done:
                raise Timeout(
                    "not all messages were settled in time",
                    backend=self._backend.name, topic=handle.topic, operation="flush",
                    fix="They are still on their way: flush again",
                )  # fmt: skip
        with self._lock:
            self._retire()

    # inside ------------------------------------------------------------------------------------------------

    def _accept(
        self, handles: Sequence[SendHandle], size: int, deadline: Deadline, when_full: Literal["block", "raise"]
    ) -> None:
        """Hand records over, all at once, as soon as there is room for them."""
        while True:
            with self._lock:
                self._check_open()
                self._retire()
                if self._has_room(len(handles), size):
                    self._hand_over(handles, size)
                    return
                oldest = self._on_its_way[0]
            if when_full == "raise" or deadline.expired:
                raise QueueFull(
                    f"{len(self._on_its_way)} messages of {self._bytes} bytes are on their way",
                    backend=self._backend.name, topic=self.topic, operation="send",
                )  # fmt: skip
            self._wait(oldest, Deadline(deadline.remaining(SLICE)))

    def _hand_over(self, handles: Sequence[SendHandle], size: int) -> None:
        self._on_its_way.extend(handles)
        self._bytes += size
        try:
            self._driver.send(handles)
        except BaseException:
            for handle in handles:
                handle.unknown(OutcomeUnknown("the driver failed while it took the message"))
            with self._backend.context("send", self.topic):
                raise

    def _has_room(self, messages: int, size: int) -> bool:
        if not self._on_its_way:
            return True
        return len(self._on_its_way) + messages <= QUEUE_MESSAGES and self._bytes + size <= self._queue_bytes

    def _handle(
        self,
        deadline: Deadline,
        value: bytes | None,
        key: bytes | None = None,
        headers: HeadersArgument = (),
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        topic: str | None = None,
    ) -> SendHandle:
        """The handle of a record that was checked and has its partition; failed already if it is too large."""
        checked = check(value, key, headers, timestamp)
        if self._narrow is not None:
            with self._backend.context("send", self.topic):
                check_declared(checked, self._narrow)
        topic = topic if topic is not None else self.topic
        if topic is None:
            raise TypeError("this producer was opened without a topic: say topic= with each message")
        route = self._routes.get(topic)
        if route is None:
            self._check_open()
            route = self._routes[topic] = self._find_route(topic, deadline)
        handle = SendHandle(topic, checked, _partition(partition, checked.key, route), checked.size, self._wait)
        if handle.size > self._largest:
            handle.failed(
                MessageTooLarge(
                    f"the message has {handle.size} bytes, the most is {self._largest}",
                    backend=self._backend.name,
                )
            )
        return handle

    def _wait(self, handle: SendHandle, deadline: Deadline) -> None:
        """Wait for one handle: one thread serves the driver's reports, the others sleep until theirs is there."""
        while not handle.done and not deadline.expired:
            if self._pumping.acquire(blocking=False):
                try:
                    self._pump_for(handle, deadline)
                finally:
                    self._pumping.release()
            else:
                waiter = handle.waiter = handle.waiter or Event()
                if handle.pending:
                    waiter.wait(deadline.remaining(SLICE / 10))

    def _pump_for(self, handle: SendHandle, deadline: Deadline) -> None:
        while handle.pending and not deadline.expired:
            self._driver.pump(deadline.remaining(SLICE))

    def _retire(self) -> None:
        """Let go of what is settled. The lock is held."""
        waiting = self._on_its_way
        while waiting and waiting[0].done:
            handle = waiting.popleft()
            self._bytes -= handle.size
            if not handle.looked_at and handle.error:
                self._unseen.append(handle)

    def _raise_unseen(self, operation: str) -> None:
        with self._lock:
            failed = [handle.error for handle in self._unseen if handle.error and not handle.looked_at]
            self._unseen.clear()
        if failed:
            raise SendFailed(
                f"{len(failed)} submitted messages failed, first: {failed[0]}",
                results=failed, backend=self._backend.name, topic=self.topic, operation=operation,
            ) from failed[0]  # fmt: skip

    # ending ------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = 30) -> None:
        """Flush what was accepted, then let go. May be called twice.

        What cannot be settled in time becomes ``OutcomeUnknown``, and is counted in one ``CloseIncomplete``.
        """
        deadline = Deadline(timeout)
        with self._lock:
            already, self._closed = self._closed, True
        if already or self._fork.crossed:
            return
        try:
            self._drain(deadline)
        except Timeout:
            pass  # counted below
        finally:
            self._on_closed(self)
            close_native(f"a producer of {self.topic}", self._driver.close, deadline)
        self._give_up_rest()
        self._raise_unseen("close")

    def _give_up_rest(self) -> None:
        with self._lock:
            self._retire()
            rest = [handle for handle in self._on_its_way if not handle.done]
            self._on_its_way.clear()
        for handle in rest:
            handle.unknown(OutcomeUnknown("the producer was closed before the answer came", backend=self._backend.name))
        if rest:
            raise CloseIncomplete(
                f"the outcome of {len(rest)} messages is unknown",
                backend=self._backend.name, topic=self.topic, operation="close", fix="Close with more time",
            )  # fmt: skip

    def _keep(self) -> None:
        """The keeper's round: serve reports when nobody waits for them."""
        if self._closed or not self._on_its_way or not self._pumping.acquire(blocking=False):
            return
        try:
            self._driver.pump(0)
        finally:
            self._pumping.release()

    def _check_open(self) -> None:
        self._fork.check()
        if self._closed:
            raise Closed(f"{self!r} was closed", backend=self._backend.name, topic=self.topic)

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<Producer {self._backend.name} {self.topic or 'any topic'}{state}>"


def _fields(record: Record | bytes) -> tuple[Any, ...]:
    if isinstance(record, Record):
        return record.value, record.key, record.headers, record.timestamp, record.partition, record.topic
    return (record,)


def _partition(wanted: int | None, key: bytes | None, route: Route) -> int:
    if wanted is None:
        return -1 if route.choose is None else route.choose(key, route.partitions)
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise TypeError(f"a partition is a whole number, not {type(wanted).__name__}")
    if not 0 <= wanted < route.partitions:
        raise ValueError(f"{route.topic!r} has partitions 0 to {route.partitions - 1}, and no {wanted}")
    return wanted


def _result(handle: SendHandle, deadline: Deadline) -> MessageId | Error:
    try:
        return handle.result(None if handle.done or deadline.timeout is None else deadline.remaining())
    except Error as error:
        return error
