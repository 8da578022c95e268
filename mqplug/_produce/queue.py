"""The bounded queue of a producer: accepted records, handed over in order and kept until they are settled.

If the driver takes runs, records that no sender waits for are collected: see ``lingering``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from mqplug._base.deadline import Deadline
from mqplug._base.fork import ForkGuard
from mqplug._model.checks import whole_number
from mqplug._model.errors import Closed, Error, QueueFull, Timeout
from mqplug._model.outcome import OutcomeUnknown
from mqplug._produce import collecting
from mqplug._produce.collecting import RowHandle, handle_class
from mqplug._produce.handle import SingleSend
from mqplug._produce.lingering import CollectedRun, LingerThread, OpenRuns
from mqplug._produce.outcomes import Outcomes, ProducerStatistics
from mqplug._produce.pump import PUMP_SLICE_S, Pump
from mqplug._produce.send_run import SendRun

if TYPE_CHECKING:
    from mqplug._plugins.backend import Backend
    from mqplug._produce.lingering import WholeRow
    from mqplug._produce.pump import AwaitedSend
    from mqplug.spi._drivers import ProducerDriver
    from mqplug.spi.compiled import CompiledCollecting

T = TypeVar("T")
WhenFull = Literal["block", "raise"]
SendUnit = SingleSend | SendRun

COLLECTED_MESSAGES = 8000  # the most of one run
COLLECTED_BYTES = 1 << 20  # the most of one run, unless a single record has more
RETIRE_AFTER_MESSAGES = 1000  # after this many, removing the settled ones pays off


class SendQueue:
    """The records of one producer that are on their way. Any thread may use it."""

    def __init__(
        self,
        backend: Backend,
        driver: ProducerDriver,
        topic: str | None,
        limits: tuple[int, int],
        run_limits: tuple[int, int],
    ) -> None:
        self._backend = backend
        self._flush = driver.flush
        self._send = driver.send
        self._store: Callable[[SingleSend], None] | None = driver.store if driver.stores_at_once else None
        self._send_run: Callable[[SendRun], None] = driver.send_run
        self._topic = topic
        self.max_messages, self.max_bytes = limits
        self._run_messages = min(COLLECTED_MESSAGES, run_limits[0])
        self._run_bytes = min(COLLECTED_BYTES, run_limits[1])
        self._closed = False
        self._fork = ForkGuard()
        self._forks = ForkGuard.forks
        self.lock = Lock()
        """Held while records are added or handed over."""
        self.open_runs = OpenRuns()
        self._waiting: deque[SendUnit] = deque()
        self._messages = self._bytes = 0  # handed over, or settled and not removed yet
        self._retire_at = min(RETIRE_AFTER_MESSAGES, self.max_messages)  # settled records are removed at these limits
        self._retire_at_bytes = self.max_bytes
        self._outcomes = Outcomes()
        self._attended = False
        self.pump = Pump(driver.pump)
        self.collecting: CompiledCollecting = driver.collecting or collecting
        self.new_handle = handle_class(self.collecting.Row)
        self._linger: LingerThread | None = None
        if driver.linger_s is not None:
            self._linger = LingerThread(self._hand_over_lingering, driver.linger_s, f"mqplug-{backend.name}-linger")

    # collecting --------------------------------------------------------------------------------------------

    @property
    def collects(self) -> bool:
        """Whether records that no sender waits for are collected, so that the driver gets them together."""
        return self._linger is not None

    def collect(
        self, topic: str, partition: int, row: WholeRow, size: int, deadline: Deadline,
        when_full: WhenFull = "block", single: SingleSend | None = None,
    ) -> RowHandle:  # fmt: skip
        """Add a record to the open run of its partition, or to a new one as soon as there is room.

        ``single`` is the record itself, if it has its own handle. Most submitted records are added by a ``Collector``.
        """
        self.check_open()  # before the lock, which a child process may find taken forever
        with self.lock:
            run = self.open_runs.of_topic(topic).get(partition)
            if run is not None and run.has_room(size):
                return self.new_handle(run, run.add(row, size, single))

        def add() -> RowHandle | None:
            run = self._run_with_room(topic, partition, size)
            if run is None:
                return None
            handle = self.new_handle(run, run.add(row, size, single))
            if self._store is None and not self._waiting:
                self._hand_over_collected(run)  # the driver has nothing to do
            elif self._linger is not None:
                self._linger.start()
            return handle

        return self._when_there_is_room(add, topic, deadline, when_full)

    def _run_with_room(self, topic: str, partition: int, size: int) -> CollectedRun | None:
        """Return the open run of a partition, or a new one; None if the queue is full. The lock is held.

        A run reserves its share of the queue when it is opened, so that adding to it needs no check of the queue.
        """
        run = self.open_runs.of_topic(topic).get(partition)
        if run is not None:
            if run.has_room(size):
                return run
            self._hand_over_collected(run)
        for other in self.open_runs.that_may_overlap(topic, partition):
            self._hand_over_collected(other)
        if not self._makes_room(1, size):
            return None
        most = min(self._run_messages, (self.max_messages - self._messages - self.open_runs.messages) // 2)
        most_bytes = min(self._run_bytes, (self.max_bytes - self._bytes - self.open_runs.bytes) // 2)
        rows_class = self.collecting.Rows
        run = CollectedRun(topic, partition, self.wait, max(1, most), max(size, most_bytes), rows_class)
        self.open_runs.add(run)
        return run

    def _hand_over_lingering(self) -> bool:
        """Hand over the runs that existed at the last tick. Return whether there are others."""
        with self.lock:
            for run in self.open_runs:
                if run.ticked:
                    self._hand_over_collected(run)
                run.ticked = True
            return bool(self.open_runs)

    def _hand_over_all_collected(self) -> None:
        for run in self.open_runs:
            self._hand_over_collected(run)

    def _hand_over_collected(self, run: CollectedRun) -> None:
        """Seal a run and hand it over. If the driver fails, its handles report that. The lock is held."""
        try:
            self._waiting.append(run)
            self.open_runs.remove(run)
            run.seal()
            self._messages += len(run)
            self._bytes += run.size
            self._give(run)
        except Exception as error:  # noqa: BLE001 - the caller may not be the sender of the records
            run.unknown(_in_hand_over(f"the driver failed with {error!r}"))
        except BaseException as error:
            self.open_runs.remove(run)
            run.seal()
            run.unknown(_in_hand_over(f"{type(error).__name__} came"))
            raise

    # accepting ---------------------------------------------------------------------------------------------

    def put(self, single: SingleSend, *, waits: bool = False) -> bool:
        """Hand a record over if the queue has room and no clean-up is due. Otherwise return False: ``accept`` takes it.

        ``waits``: the sender waits for the outcome, so the driver may store the record in this call, if it can.
        """
        if ForkGuard.forks != self._forks:
            return False
        with self.lock:
            if self.open_runs.all:
                self._hand_over_all_collected()
            if self._messages >= self._retire_at or self._bytes + single.size > self._retire_at_bytes:
                return False
            self._messages += 1
            self._bytes += single.size
            self._waiting.append(single)
            if not waits or self._store is None:
                try:
                    self._send((single,))
                except BaseException as error:  # noqa: BLE001 - raised again
                    self._broken(single, error)
                return True
        try:
            self._store(single)
        except BaseException as error:  # noqa: BLE001 - raised again
            self._broken(single, error)
        return True

    def accept(self, unit: SendUnit, deadline: Deadline, when_full: WhenFull = "block") -> None:
        """Hand over a record or a run as soon as there is room. Raise ``QueueFull`` if there is none in time."""
        messages = len(unit) if isinstance(unit, SendRun) else 1

        def hand_over() -> bool | None:
            if not self._makes_room(messages, unit.size):
                return None
            self._hand_over_all_collected()
            self._hand_over(unit, messages)
            return True

        self._when_there_is_room(hand_over, unit.topic, deadline, when_full)

    def _when_there_is_room(
        self, attempt: Callable[[], T | None], topic: str, deadline: Deadline, when_full: WhenFull
    ) -> T:
        """Call ``attempt``, with the lock held, until it returns a result. Raise ``QueueFull`` at the deadline."""
        self.check_open()
        with self.lock:
            self._retire()
        if self._waiting:
            self._attended = True
            self.pump.serve()
        while True:
            with self.lock:
                self.check_open()
                self._retire()
                done = attempt()
                if done is not None:
                    return done
                oldest = self._waiting[0]
            if when_full == "raise" or deadline.expired:
                raise QueueFull(
                    f"the queue is full: {self._messages} messages of {self._bytes} bytes are on their way",
                    backend=self._backend.name, topic=topic, operation="send",
                )  # fmt: skip
            self.pump.wait(oldest, Deadline(deadline.remaining(PUMP_SLICE_S)))

    def _makes_room(self, messages: int, size: int) -> bool:
        """Return whether there is room, or nothing is on its way. Make room if necessary. The lock is held."""
        if not self._has_room(messages, size):
            self._hand_over_all_collected()  # frees the unused reservations of the runs
            self._sweep()
        return self._has_room(messages, size) or not (self._waiting or self.open_runs)

    def _has_room(self, messages: int, size: int) -> bool:
        reserved = self.open_runs
        return (
            self._messages + reserved.messages + messages <= self.max_messages
            and self._bytes + reserved.bytes + size <= self.max_bytes
        )

    def _hand_over(self, unit: SendUnit, messages: int) -> None:
        try:
            self._waiting.append(unit)
            self._messages += messages
            self._bytes += unit.size
            self._give(unit)
        except BaseException as error:  # noqa: BLE001 - raised again
            self._broken(unit, error)

    def _give(self, unit: SendUnit) -> None:
        if isinstance(unit, SingleSend):
            self._send((unit,))
        else:
            self._send_run(unit)

    def _broken(self, unit: SendUnit, error: BaseException) -> NoReturn:
        unit.was_seen = isinstance(error, Exception)  # the caller gets it; an interrupt does not name the message
        unit.unknown(_in_hand_over("the driver failed" if unit.was_seen else f"{type(error).__name__} came"))
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
        with self.lock:
            self._closed = True
            self._retire_at = self.max_messages = -1  # makes each sender check whether the queue is open
            self._hand_over_all_collected()

    # settled -----------------------------------------------------------------------------------------------

    def _retire(self) -> None:
        """Remove settled records, up to the first unsettled one. The lock is held."""
        waiting = self._waiting
        stored = size = 0
        while waiting:
            unit = waiting[0]
            if type(unit) is SingleSend and type(unit.outcome) is tuple:
                stored += 1
                size += unit.size
                waiting.popleft()
            elif unit.awaited is None:
                self._forget(waiting.popleft())
            else:
                break
        self._outcomes.stored += stored
        self._outcomes.bytes += size
        self._messages -= stored
        self._bytes -= size
        self._retire_at = min(self.max_messages, self._messages + RETIRE_AFTER_MESSAGES)

    def _sweep(self) -> None:
        """Remove all settled records, even after unsettled ones. The lock is held."""
        everything, self._waiting = self._waiting, deque[SendUnit]()
        for unit in everything:
            if unit.awaited is None:
                self._forget(unit)
            else:
                self._waiting.append(unit)

    def _forget(self, unit: SendUnit) -> None:
        self._messages -= 1 if isinstance(unit, SingleSend) else len(unit)
        self._bytes -= unit.size
        self._outcomes.count(unit)
        if isinstance(unit, CollectedRun):
            unit.release()

    def serve_unattended(self) -> None:
        """Serve reports and remove settled records, unless a sender did so since the last call.

        A second thread next to a busy sender would slow both down, because they share the interpreter's lock.
        """
        attended, self._attended = self._attended, False
        if self._waiting and not attended:
            self.pump.serve()
            with self.lock:
                self._retire()

    def wait(self, wanted: AwaitedSend, deadline: Deadline) -> None:
        """Wait until this is settled or the time is up. If it is still being collected, hand it over first."""
        if self.open_runs.all and (not isinstance(wanted, RowHandle) or wanted.awaited in self.open_runs):
            with self.lock:
                self._hand_over_all_collected()
        self.pump.wait(wanted, deadline)

    def drain(self, deadline: Deadline) -> None:
        """Wait until every accepted record is settled. Raise ``Timeout`` if that takes too long."""
        with self.lock:
            self._hand_over_all_collected()
            waiting = list(self._waiting)
        if waiting:
            self._flush(deadline.remaining(PUMP_SLICE_S))
        for unit in waiting:
            self.pump.wait(unit, deadline)
            if unit.awaited is not None:
                raise Timeout(
                    "not all messages were settled in time",
                    backend=self._backend.name, topic=unit.topic, operation="flush",
                    fix="Flush again: they are still on their way",
                )  # fmt: skip
        with self.lock:
            self._retire()

    def give_up(self) -> int:
        """Settle all records on their way as unknown. Return their number."""
        with self.lock:
            self._sweep()
            given_up = self._messages
            for unit in self._waiting:
                unit.unknown(OutcomeUnknown("the producer was closed before the outcome was known"))
                unit.was_seen = True  # the close reports their number
            self._sweep()
        return given_up

    def end(self, deadline: Deadline) -> None:
        """End the thread that hands over collected runs."""
        if self._linger is not None:
            self._linger.close(deadline.remaining(PUMP_SLICE_S))

    def raise_unseen(self, operation: str) -> None:
        """Raise the failures that no caller has seen, once."""
        if (error := self.unseen(operation)) is not None:
            raise error

    def unseen(self, operation: str) -> Error | None:
        """Return the unseen failures as one error, once. It is ``OutcomeUnknown`` if all are in doubt."""
        where: dict[str, Any] = {"backend": self._backend.name, "topic": self._topic, "operation": operation}
        with self.lock:
            return self._outcomes.take_unseen(where)

    def statistics(self) -> ProducerStatistics:
        """Return counts of the messages by outcome."""
        with self.lock:
            self._sweep()
            outcomes, (messages, size) = self._outcomes, self.open_runs.used()
            return ProducerStatistics(
                stored=outcomes.stored, failed=outcomes.failed, unknown=outcomes.unknown,
                waiting=self._messages + messages, bytes=outcomes.bytes + self._bytes + size,
            )  # fmt: skip


def _in_hand_over(what: str) -> OutcomeUnknown:
    return OutcomeUnknown(f"{what} while the message was handed over")


def check_when_full(when_full: str) -> None:
    """Raise ``ValueError`` for an unknown ``when_full``."""
    if when_full not in {"block", "raise"}:
        raise ValueError(f"when_full must be 'block' or 'raise', not {when_full!r}")


def check_limits(messages: int, size: int) -> tuple[int, int]:
    """Return the limits of a queue. Raise ``TypeError`` or ``ValueError`` for impossible ones."""
    for name, limit in (("queue_messages", messages), ("queue_bytes", size)):
        whole_number(name, limit, 1)
    return messages, size
