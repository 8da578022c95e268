"""The bounded queue of a producer: accepted records, handed over in order and kept until they are settled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from mqplug._base.deadline import Deadline
from mqplug._base.fork import ForkGuard
from mqplug._model.checks import whole_number
from mqplug._model.errors import Closed, Error, QueueFull, SendFailed, Timeout
from mqplug._model.outcome import OutcomeUnknown
from mqplug._model.statistics import ProducerStatistics
from mqplug._produce.handle import PUMP_SLICE_S, Pump, SendHandle
from mqplug._produce.send_run import SendRun
from mqplug.spi._drivers import stores_at_once, takes_runs

if TYPE_CHECKING:
    from mqplug._plugins.backend import Backend
    from mqplug._produce.handle import IdParts
    from mqplug.spi._drivers import ProducerDriver

WhenFull = Literal["block", "raise"]
SendUnit = SendHandle | SendRun

RETIRE_AFTER_MESSAGES = 1000  # after which removing the settled ones pays off
MAX_KEPT_FAILURES = 10_000  # that no caller has seen; more are only counted


class SendQueue:
    """The records of one producer that are on their way. Any thread may use it."""

    def __init__(
        self,
        backend: Backend,
        driver: ProducerDriver,
        topic: str | None,
        limits: tuple[int, int],
    ) -> None:
        self._backend = backend
        self._flush = driver.flush
        self._send = driver.send
        self._store: Callable[[SendHandle], None] | None = driver.store if stores_at_once(driver) else None
        self._send_run: Callable[[SendRun], None] | None = driver.send_run if takes_runs(driver) else None
        self._topic = topic
        self.max_messages, self.max_bytes = limits
        self._closed = False
        self._fork = ForkGuard()
        self._forks = ForkGuard.forks
        self._lock = Lock()
        self._waiting: deque[SendUnit] = deque()
        self._messages = self._bytes = 0  # waiting, or settled and not removed yet
        self._retire_at = min(RETIRE_AFTER_MESSAGES, self.max_messages)  # at these, settled records are removed
        self._retire_at_bytes = self.max_bytes
        self._stored = self._failed = self._unknown = self._settled_bytes = 0
        self._unseen: list[Error | SendHandle] = []
        self._unseen_more = 0
        self._attended = False
        self.pump = Pump(driver.pump)

    # accepting ---------------------------------------------------------------------------------------------

    def put(self, handle: SendHandle, *, waits: bool = False) -> bool:
        """Hand a record over if the queue has room and no clean-up is due. Otherwise return False: ``accept`` takes it.

        ``waits``: the sender waits for the outcome, so a driver that can may store the record in this call.
        """
        if ForkGuard.forks != self._forks:
            return False
        with self._lock:
            if self._messages >= self._retire_at or self._bytes + handle.size > self._retire_at_bytes:
                return False
            self._messages += 1
            self._bytes += handle.size
            self._waiting.append(handle)
            if not waits or self._store is None:
                try:
                    self._send((handle,))
                except BaseException as error:  # noqa: BLE001 - raised again
                    self._broken(handle, error)
                return True
        try:
            self._store(handle)
        except BaseException as error:  # noqa: BLE001 - raised again
            self._broken(handle, error)
        return True

    def accept(self, unit: SendUnit, deadline: Deadline, when_full: WhenFull = "block") -> None:
        """Hand a record or a run over as soon as there is room. Raise ``QueueFull`` if there is none in time."""
        messages = len(unit) if isinstance(unit, SendRun) else 1
        self.check_open()  # before the lock: a child process may find it taken for ever
        with self._lock:
            self._retire()
        if self._waiting:
            self._attended = True
            self.pump.serve()
        while True:
            with self._lock:
                self.check_open()
                self._retire()
                if not self._has_room(messages, unit.size):
                    self._sweep()
                if not self._waiting or self._has_room(messages, unit.size):
                    self._hand_over(unit, messages)
                    return
                oldest = self._waiting[0]
            if when_full == "raise" or deadline.expired:
                raise QueueFull(
                    f"the queue is full: {self._messages} messages of {self._bytes} bytes are on their way",
                    backend=self._backend.name, topic=unit.topic, operation="send",
                )  # fmt: skip
            self.pump.wait(oldest, Deadline(deadline.remaining(PUMP_SLICE_S)))

    def _has_room(self, messages: int, size: int) -> bool:
        return self._messages + messages <= self.max_messages and self._bytes + size <= self.max_bytes

    def _hand_over(self, unit: SendUnit, messages: int) -> None:
        try:
            self._waiting.append(unit)
            self._messages += messages
            self._bytes += unit.size
            if isinstance(unit, SendHandle):
                self._send((unit,))
            elif self._send_run is not None:
                self._send_run(unit)
            else:
                self._send(unit.sendings())
        except BaseException as error:  # noqa: BLE001 - raised again
            self._broken(unit, error)

    def _broken(self, unit: SendUnit, error: BaseException) -> NoReturn:
        unit.looked_at = isinstance(error, Exception)  # the caller gets it; an interrupt says nothing of the message
        what = "the driver failed" if unit.looked_at else f"{type(error).__name__} came"
        unit.unknown(OutcomeUnknown(f"{what} while the message was handed over"))
        with self._backend.context("send", unit.topic):
            raise error

    def check_open(self) -> None:
        """Raise if the producer was closed, or belongs to the parent process."""
        self._fork.check()
        if self._closed:
            raise Closed(
                f"the producer of {self._topic or 'any topic'} was closed",
                backend=self._backend.name, topic=self._topic,
            )  # fmt: skip

    def shut(self) -> None:
        """Accept nothing more."""
        with self._lock:
            self._closed = True
            self._retire_at = self.max_messages = -1  # each sender then checks first whether this is open

    # settled -----------------------------------------------------------------------------------------------

    def _retire(self) -> None:
        """Remove settled records, up to the first unsettled one. The lock is held."""
        waiting = self._waiting
        stored = size = 0
        while waiting:
            unit = waiting[0]
            if type(unit) is SendHandle and type(unit.outcome) is tuple:
                stored += 1
                size += unit.size
                waiting.popleft()
            elif unit.awaited is None:
                self._forget(waiting.popleft())
            else:
                break
        self._stored += stored
        self._messages -= stored
        self._bytes -= size
        self._settled_bytes += size
        self._retire_at = min(self.max_messages, self._messages + RETIRE_AFTER_MESSAGES)

    def _sweep(self) -> None:
        """Remove all settled records, also those behind unsettled ones. The lock is held."""
        everything, self._waiting = self._waiting, deque[SendUnit]()
        for unit in everything:
            if unit.awaited is None:
                self._forget(unit)
            else:
                self._waiting.append(unit)

    def _forget(self, unit: SendUnit) -> None:
        self._bytes -= unit.size
        self._settled_bytes += unit.size
        if isinstance(unit, SendHandle):
            self._messages -= 1
            self._count(unit, unit.outcome)
            return
        self._messages -= len(unit)
        if unit.is_stored:
            self._stored += len(unit)
            return
        for outcome in unit.results():
            self._count(unit, outcome)

    def _count(self, unit: SendUnit, outcome: IdParts | Error | None) -> None:
        if type(outcome) is tuple:
            self._stored += 1
        elif isinstance(outcome, Error):
            if isinstance(outcome, OutcomeUnknown):
                self._unknown += 1
            else:
                self._failed += 1
            self._keep_unseen(unit, outcome)

    def _keep_unseen(self, unit: SendUnit, error: Error) -> None:
        if unit.looked_at:
            return
        if len(self._unseen) < MAX_KEPT_FAILURES:
            self._unseen.append(unit if isinstance(unit, SendHandle) else error)
        else:
            self._unseen_more += 1

    def serve_unattended(self) -> None:
        """Serve reports and remove settled records, unless a sender did so since the last call.

        A second thread beside a busy sender would slow both down: they share the interpreter's lock.
        """
        attended, self._attended = self._attended, False
        if self._waiting and not attended:
            self.pump.serve()
            with self._lock:
                self._retire()

    def drain(self, deadline: Deadline) -> None:
        """Wait until every record accepted so far is settled. Raise ``Timeout`` if that takes too long."""
        with self._lock:
            waiting = list(self._waiting)
        if waiting:
            self._flush(deadline.remaining(PUMP_SLICE_S))
        for unit in waiting:
            self.pump.wait(unit, deadline)
            if unit.awaited is not None:
                raise Timeout(
                    "not all messages were settled in time",
                    backend=self._backend.name, topic=unit.topic, operation="flush",
                    fix="They are still on their way: flush again",
                )  # fmt: skip
        with self._lock:
            self._retire()

    def give_up(self) -> int:
        """Settle all records on their way as unknown. Return their number."""
        with self._lock:
            self._sweep()
            given_up = self._messages
            for unit in self._waiting:
                unit.unknown(OutcomeUnknown("the producer was closed before the answer came"))
                unit.looked_at = True  # the close reports their number
            self._sweep()
        return given_up

    def raise_unseen(self, operation: str) -> None:
        """Raise the failures that no caller has seen, once."""
        if (error := self.unseen(operation)) is not None:
            raise error

    def unseen(self, operation: str) -> Error | None:
        """Return the failures that no caller has seen as one error, once: ``OutcomeUnknown`` if all are in doubt."""
        with self._lock:
            kept, more = self._unseen, self._unseen_more
            self._unseen, self._unseen_more = [], 0
        handles = [each.error if isinstance(each, SendHandle) else each for each in kept if not _seen(each)]
        failed = [each for each in handles if each is not None]
        if not failed:
            return None
        where: dict[str, Any] = {"backend": self._backend.name, "topic": self._topic, "operation": operation}
        count, first = len(failed) + more, failed[0]
        error: Error
        if all(isinstance(each, OutcomeUnknown) for each in failed):
            error = OutcomeUnknown(f"{count} messages may or may not be stored, first: {first.message}", **where)
        else:
            error = SendFailed(f"{count} submitted messages failed, first: {first}", results=failed, **where)
        error.__cause__ = first
        return error

    def statistics(self) -> ProducerStatistics:
        """Count the messages by outcome."""
        with self._lock:
            self._sweep()
            return ProducerStatistics(
                stored=self._stored, failed=self._failed, unknown=self._unknown, waiting=self._messages,
                bytes=self._settled_bytes + self._bytes,
            )  # fmt: skip


def check_when_full(when_full: str) -> None:
    """Raise ``ValueError`` for an unknown ``when_full``."""
    if when_full not in {"block", "raise"}:
        raise ValueError(f"when_full is 'block' or 'raise', not {when_full!r}")


def check_limits(messages: int, size: int) -> tuple[int, int]:
    """Return the limits of a queue. Raise ``TypeError`` or ``ValueError`` for impossible ones."""
    for name, limit in (("queue_messages", messages), ("queue_bytes", size)):
        whole_number(name, limit, 1)
    return messages, size


def _seen(each: Error | SendHandle) -> bool:
    return isinstance(each, SendHandle) and each.looked_at
