"""The faults extension: puts faults around every hook, and around every driver that a hook opens.

A consumer's driver goes silent, fails, and loses or repeats messages. A producer's driver loses messages and answers,
or they come late or twice. A step of a transaction fails to begin or end, or the answer to its commit is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from threading import Event, Lock
from typing import Final

import attrs

from mqplug import Batch, Error, Log, OutcomeUnknown, Position
from mqplug.spi import (
    Action,
    Connection,
    ConsumerDriver,
    ConsumerOptions,
    Deadline,
    GroupMove,
    GroupPosition,
    Numbers,
    ProducerDriver,
    Sending,
    Settlement,
    TopicInfo,
    TransactionDriver,
    TransactionMark,
    action_name,
    hookimpl,
)
from mqplug.spi.proxies import (
    ConnectionProxy,
    ConsumerProxy,
    HookWrapper,
    ProducerProxy,
    SendingProxy,
    TransactionProxy,
)
from mqplug_testing.faults._rules import (
    FaultPicker,
    Happened,
    Rule,
    TopicPartition,
    after_call,
    before_call,
    carry_out,
    close,
)


@attrs.define(eq=False)
class Faults:
    """An extension that injects faults by its rules. The first rule that strikes an event wins.

    The same seed makes the same decisions for the same events. Set ``active`` to False to pause the faults.
    ``happened`` lists the injected faults.
    """

    rules: Sequence[Rule] = ()
    seed: int = 0
    _picker: FaultPicker = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._picker = FaultPicker(self.rules, self.seed)

    @property
    def happened(self) -> list[Happened]:
        """The injected faults, in order."""
        return list(self._picker.happened)

    @property
    def active(self) -> bool:
        """Whether faults are injected."""
        return self._picker.active

    @active.setter
    def active(self, active: bool) -> None:
        self._picker.active = active

    @hookimpl(wrapper=True)
    def mqplug_connect(self, timeout: float) -> HookWrapper:
        connection = yield from self._around("connect", (), timeout)
        return FaultyConnection(connection, self._picker)

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self, timeout: float) -> HookWrapper:
        driver: ProducerDriver = yield from self._around("open_producer", (), timeout)
        return FaultyProducer(driver, self._picker)

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self, options: ConsumerOptions, timeout: float) -> HookWrapper:
        places = _places(options.logs)
        driver: ConsumerDriver = yield from self._around("open_consumer", places, timeout)
        return FaultyConsumer(driver, self._picker, places)

    @hookimpl(wrapper=True)
    def mqplug_open_stage(self, topic: TopicInfo, timeout: float) -> HookWrapper:
        return (yield from self._around("open_stage", _places(topic.logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_open_transactions(self, timeout: float) -> HookWrapper:
        driver: TransactionDriver = yield from self._around("open_transactions", (), timeout)
        return FaultyTransactions(driver, self._picker)

    @hookimpl(wrapper=True)
    def mqplug_resolve_start(self, logs: Sequence[Log], timeout: float) -> HookWrapper:
        return (yield from self._around("resolve_start", _places(logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_move_group(self, positions: Mapping[Log, GroupPosition], timeout: float) -> HookWrapper:
        return (yield from self._around("move_group", _places(positions), timeout))

    @hookimpl(wrapper=True)
    def mqplug_watermarks(self, logs: Sequence[Log], timeout: float) -> HookWrapper:
        return (yield from self._around("watermarks", _places(logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_bounds(self, logs: Sequence[Log], timeout: float) -> HookWrapper:
        return (yield from self._around("bounds", _places(logs), timeout))

    @hookimpl(wrapper=True)
    def mqplug_administer(self, action: Action, timeout: float) -> HookWrapper:
        topic = getattr(action, "topic", None)
        places: list[TopicPartition] = [(topic, None)] if topic is not None else _places(getattr(action, "before", ()))
        return (yield from self._around(action_name(type(action)), places, timeout))

    def _around(self, operation: str, places: Sequence[TopicPartition], timeout: float) -> HookWrapper:
        rule = self._picker.pick(operation, places)
        before_call(rule, timeout)
        answer = yield
        after_call(rule)
        return answer


class FaultyConnection(ConnectionProxy):
    """A connection whose ``health`` and ``close`` may fail or come late."""

    def __init__(self, inner: Connection, picker: FaultPicker) -> None:
        super().__init__(inner)
        self._picker = picker

    def health(self, timeout: float) -> None:
        self.inner.health(before_call(self._picker.pick("health"), timeout))

    def close(self, timeout: float) -> None:
        close(self._picker.pick("close"), self.inner.close, timeout)


def _places(logs: Iterable[Log]) -> list[TopicPartition]:
    return [(log.topic, log.partition) for log in logs]


POLL_EFFECTS: Final = frozenset({"fail", "delay"})
MESSAGE_EFFECTS: Final = frozenset({"drop", "duplicate"})


class FaultyConsumer(ConsumerProxy):
    """A consumer's driver with faults in each poll, each message and each call."""

    def __init__(self, inner: ConsumerDriver, picker: FaultPicker, places: Sequence[TopicPartition]) -> None:
        super().__init__(inner)
        self._picker = picker
        self._places = places
        self._by_message = picker.concerns("poll", MESSAGE_EFFECTS)
        self._silent = Deadline(0)
        self._woken = Event()

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        if not self._silent.expired:
            self._woken.wait(self._silent.remaining(timeout))
            self._woken.clear()
            self.inner.tend(0.0)  # keeps its membership while it is silent
            return []
        rule = self._picker.pick("poll", self._places, POLL_EFFECTS)
        if rule is not None and rule.action == "fail":
            raise rule.make_error()
        if rule is not None:
            self._silent = Deadline(rule.delay)
            return []
        batches = self.inner.poll(most, timeout)
        return [self._with_faults(batch) for batch in batches] if self._by_message else batches

    def _with_faults(self, batch: Batch) -> Batch:
        rows: list[int] = []
        place = [(batch.log.topic, batch.log.partition)]
        for row in range(len(batch)):
            rule = self._picker.pick("poll", place, MESSAGE_EFFECTS)
            times = 1 if rule is None else {"drop": 0, "duplicate": 2}[rule.action]
            rows += [row] * times
        return (
            batch if len(rows) == len(batch) and len(set(rows)) == len(rows) else batch.take(rows, batch.next_position)
        )

    def wake(self) -> None:
        self._woken.set()
        self.inner.wake()

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        rule = self._picker.pick("seek", _places(positions))
        carry_out(rule, partial(self.inner.seek, positions), timeout)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        rule = self._picker.pick("commit", _places(positions))
        carry_out(rule, partial(self.inner.commit, positions), timeout)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int | None:
        rule = self._picker.pick("settle", _places(settled))
        return carry_out(rule, partial(super().settle, settled), timeout)

    def close(self, timeout: float) -> None:
        close(self._picker.pick("close", self._places), self.inner.close, timeout)


LATE_ANSWER_CHECK_S = 0.01  # seconds between checks for due answers


class FaultyProducer(ProducerProxy):
    """A producer's driver with a fault for each message that a rule strikes."""

    def __init__(self, inner: ProducerDriver, picker: FaultPicker) -> None:
        super().__init__(inner)
        self._picker = picker
        self._late = LateAnswers()

    def send(self, sendings: Sequence[Sending]) -> None:
        passed = [each for sending in sendings for each in self._with_fault(sending)]
        if passed:
            self.inner.send(passed)

    def _with_fault(self, sending: Sending) -> Sequence[Sending]:
        """Return the records to hand to the driver for this one: none, one or two."""
        rule = self._picker.pick("send", [(sending.topic, sending.partition)])
        if rule is None:
            return [sending]
        match rule.action:
            case "fail":
                sending.failed(rule.make_error())
                return []
            case "drop":
                sending.unknown(OutcomeUnknown("mqplug_testing.faults lost the message before it was stored"))
                return []
            case "lose_ack":
                return [Unanswered(sending)]
            case "duplicate":
                return [sending, Duplicate(sending)]
            case "delay":
                return [Late(sending, partial(self._late.add, rule.delay))]

    def pump(self, timeout: float) -> None:
        deadline = Deadline(timeout)
        if self._late.deliver() or not self._late:
            self.inner.pump(timeout)
            return
        self.inner.pump(self._late.next_in(timeout))
        if self._late.deliver():
            return
        # The driver returned early: it settled something, or only answers that are held back here are in flight.
        time.sleep(self._late.next_in(deadline.remaining(LATE_ANSWER_CHECK_S)))
        self._late.deliver()

    def close(self, timeout: float) -> None:
        try:
            close(self._picker.pick("close"), self.inner.close, timeout)
        finally:
            self._late.deliver(everything=True)


class Unanswered(SendingProxy):
    """A record that is stored, but reported as unknown."""

    __slots__ = ()

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self.inner.unknown(OutcomeUnknown("mqplug_testing.faults lost the answer"))


class Duplicate(SendingProxy):
    """The second copy of a record. Its outcome is ignored: the first copy reports."""

    __slots__ = ()

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        """Ignore it."""

    def failed(self, error: Error) -> None:
        """Ignore it."""

    def unknown(self, error: Error) -> None:
        """Ignore it."""


class Late(SendingProxy):
    """A record that is sent in time, but whose answer is held back."""

    __slots__ = ("_hold",)

    def __init__(self, inner: Sending, hold: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(inner)
        self._hold = hold

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self._hold(partial(self.inner.stored, log, coordinates, detail))

    def failed(self, error: Error) -> None:
        self._hold(partial(self.inner.failed, error))

    def unknown(self, error: Error) -> None:
        self._hold(partial(self.inner.unknown, error))


class LateAnswers:
    """Answers that are held back until they are due. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._number = count()
        self._held: list[tuple[float, int, Callable[[], None]]] = []

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, delay: float, answer: Callable[[], None]) -> None:
        """Hold an answer back for ``delay`` seconds."""
        with self._lock:
            heappush(self._held, (time.monotonic() + delay, next(self._number), answer))

    def next_in(self, most: float) -> float:
        """Return the seconds until the next answer is due, at most ``most``."""
        with self._lock:
            return min(most, max(0.0, self._held[0][0] - time.monotonic())) if self._held else most

    def deliver(self, *, everything: bool = False) -> bool:
        """Deliver the answers that are due. Return whether there were any."""
        given = False
        while (answer := self._pop(everything)) is not None:
            answer()
            given = True
        return given

    def _pop(self, everything: bool) -> Callable[[], None] | None:
        with self._lock:
            if self._held and (everything or self._held[0][0] <= time.monotonic()):
                return heappop(self._held)[2]
        return None


class FaultyTransactions(FaultyProducer, TransactionProxy):
    """A transaction's driver with a fault for each call, and each message, that a rule strikes."""

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        rule = self._picker.pick("begin_transaction", [(mark.topic, None)] if mark else ())
        repeated = self.inner.begin(mark, before_call(rule, timeout))
        try:
            after_call(rule)
        except Error:
            self.inner.abort(timeout)  # the core did not see it begin
            raise
        return repeated

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        rule = self._picker.pick("commit_transaction")
        try:
            left = before_call(rule, timeout)
        except Error:
            self.inner.abort(timeout)  # an error proves that nothing was committed
            raise
        self.inner.commit(moves, left)
        after_call(rule)

    def abort(self, timeout: float) -> None:
        rule = self._picker.pick("abort_transaction")
        try:
            before_call(rule, timeout)
        finally:
            self.inner.abort(timeout)
        after_call(rule)
