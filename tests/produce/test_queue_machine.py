"""The producer's queue against a list: in any order of sends and settlements, nothing is lost or invented."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import attrs
import pytest
from held_backend import HeldRuns, held_client
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import mqplug

MESSAGES, BYTES = 8, 100
STATES = st.sampled_from(["stored", "failed", "unknown"])
SIZES = st.integers(0, 60)


@attrs.define
class Sent:
    """The list's entry for a message: its value, its outcome, and how the caller sees that."""

    value: bytes
    state: str = "waiting"
    handle: mqplug.SendHandle | None = None
    seen: bool = False


class QueueMachine(RuleBasedStateMachine):
    """One producer whose driver settles on the machine's request. No call waits."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.mq, self.driver = self.stack.enter_context(held_client(self.make_driver()))
        self.log = self.mq.partitions("orders")[0]
        self.out = self.mq.producer("orders", queue_messages=MESSAGES, queue_bytes=BYTES)
        self.sent: list[Sent] = []
        self.units: list[list[Sent]] = []  # in the driver's order
        self.closed = False
        self.number = 0

    def make_driver(self) -> HeldRuns:
        return HeldRuns()

    def accepted(self, unit: list[Sent]) -> None:
        """Note records that were handed over together."""
        self.units.append(unit)

    def value(self, size: int) -> bytes:
        """Return a value of this size; values of a sufficient size are all different."""
        self.number += 1
        return (b"%04d" % self.number + bytes(size))[:size]

    def waiting(self) -> list[Sent]:
        return [each for each in self.sent if each.state == "waiting"]

    def has_room(self, values: list[bytes]) -> bool:
        waiting = self.waiting()
        size = sum(len(each.value) for each in waiting) + sum(map(len, values))
        return not waiting or (len(waiting) + len(values) <= MESSAGES and size <= BYTES)

    @precondition(lambda self: not self.closed)
    @rule(size=SIZES, when_full=st.sampled_from(["block", "raise"]))
    def submit(self, size: int, when_full: Any) -> None:
        """Submit: accepted if there is room, otherwise ``QueueFull``."""
        value = self.value(size)
        if not self.has_room([value]):
            with pytest.raises(mqplug.QueueFull):
                self.out.submit(value, when_full=when_full, timeout=0)
            return
        self.sent.append(Sent(value, handle=self.out.submit(value, when_full=when_full, timeout=0)))
        self.accepted(self.sent[-1:])

    @precondition(lambda self: not self.closed)
    @rule(size=SIZES)
    def send(self, size: int) -> None:
        """Send: one that times out is on its way, and its error has the handle."""
        value = self.value(size)
        room = self.has_room([value])
        with pytest.raises(mqplug.SendTimeout if room else mqplug.QueueFull) as caught:
            self.out.send(value, timeout=0)
        if room:
            self.sent.append(Sent(value, handle=caught.value.handle, seen=True))
            self.accepted(self.sent[-1:])

    @precondition(lambda self: not self.closed)
    @rule(sizes=st.lists(SIZES, min_size=1, max_size=12))
    def send_many(self, sizes: list[int]) -> None:
        """Send a batch in parts; a part without room raises ``QueueFull``, one on its way ``SendTimeout``."""
        values = [self.value(size) for size in sizes]
        parts = in_parts(values)
        if not self.has_room(parts[0]):
            with pytest.raises(mqplug.QueueFull):
                self.out.send_many(values, timeout=0)
            return
        with pytest.raises(mqplug.SendFailed) as caught:
            self.out.send_many(values, timeout=0)
        results = iter(caught.value.results)
        for part in parts:
            room = self.has_room(part)
            outcomes = [next(results) for _ in part]
            assert {type(each) for each in outcomes} == {mqplug.SendTimeout if room else mqplug.QueueFull}
            if room:
                unit = [Sent(*each) for each in zip(part, ["waiting"] * len(part), strict=True)]
                for sent, outcome in zip(unit, outcomes, strict=True):
                    sent.handle, sent.seen = outcome.handle, True
                self.sent += unit
                self.accepted(unit)

    @precondition(lambda self: self.units)
    @rule(choice=st.randoms(use_true_random=False), state=STATES, each_alone=st.booleans())
    def settle(self, choice: Any, state: str, each_alone: bool) -> None:
        """Settle any unit on its way, a batch at once or record by record."""
        self.settle_unit(choice.randrange(len(self.units)), state, each_alone)

    @precondition(lambda self: self.units)
    @rule(states=st.lists(STATES, min_size=MESSAGES, max_size=MESSAGES), each_alone=st.booleans())
    def settle_all(self, states: list[str], each_alone: bool) -> None:
        """Settle everything on its way."""
        for state in states[: len(self.units)]:
            self.settle_unit(0, state, each_alone)

    def settle_unit(self, number: int, state: str, each_alone: bool) -> None:
        unit, sent = self.driver.units.pop(number), self.units.pop(number)
        if hasattr(unit, "sendings") and not each_alone:
            settle(unit, state, (self.log, [(self.index(each),) for each in sent]))
        else:
            for one, each in zip(unit.sendings() if hasattr(unit, "sendings") else [unit], sent, strict=True):
                settle(one, state, (self.log, (self.index(each),)))
        for each in sent:
            each.state = state

    def index(self, sent: Sent) -> int:
        return next(number for number, each in enumerate(self.sent) if each is sent)

    @precondition(lambda self: self.sent)
    @rule(choice=st.randoms(use_true_random=False))
    def look(self, choice: Any) -> None:
        """Check that a handle reports its message's outcome."""
        sent = choice.choice(self.sent)
        assert sent.handle is not None
        assert sent.handle.done == (sent.state != "waiting")
        if sent.state == "stored":
            assert sent.handle.result(timeout=0) == mqplug.MessageId(self.log, (self.index(sent),))
            return
        kinds = {"waiting": mqplug.SendTimeout, "failed": mqplug.AccessDenied, "unknown": mqplug.OutcomeUnknown}
        with pytest.raises(kinds[sent.state]):
            sent.handle.result(timeout=0)
        sent.seen = sent.seen or sent.state != "waiting"

    @precondition(lambda self: not self.closed)
    @rule()
    def flush(self) -> None:
        """Flush, which succeeds when everything is settled, and raises unseen failures once."""
        if self.waiting():
            with pytest.raises(mqplug.Timeout):
                self.out.flush(timeout=0)
        else:
            self.raises_unseen(lambda: self.out.flush(timeout=0))

    def raises_unseen(self, call: Any) -> None:
        unseen = [each for each in self.sent if each.state in {"failed", "unknown"} and not each.seen]
        if not unseen:
            call()
            return
        if all(each.state == "unknown" for each in unseen):
            with pytest.raises(mqplug.OutcomeUnknown, match=f"^{len(unseen)} messages may or may not be stored"):
                call()
        else:
            with pytest.raises(mqplug.SendFailed) as caught:
                call()
            assert len(caught.value.results) == len(unseen)
        for each in unseen:
            each.seen = True

    @precondition(lambda self: not self.closed and len(self.sent) > 5)
    @rule()
    def close(self) -> None:
        """Close, which makes unsettled records unknown, and counts them."""
        waiting = self.waiting()
        if waiting:
            with pytest.raises(mqplug.CloseIncomplete, match=f"outcome of {len(waiting)} messages"):
                self.out.close(timeout=0)
        else:
            self.raises_unseen(lambda: self.out.close(timeout=0))
        self.closed = True
        for each in waiting:
            each.state, each.seen = "unknown", True
        for call in (lambda: self.out.submit(b""), lambda: self.out.send_many([b""]), self.out.flush):
            with pytest.raises(mqplug.Closed):
                call()
        for unit in self.driver.units:  # a late report changes nothing
            settle(unit, "failed", ())
        self.units.clear()
        self.driver.units.clear()

    @invariant()
    def in_order(self) -> None:
        """The driver has the accepted records, in order."""
        handed = [getattr(unit, "values", None) or [unit.value] for unit in self.driver.units]
        assert [list(each) for each in handed] == [[each.value for each in unit] for unit in self.units]

    @invariant()
    def counted(self) -> None:
        """The statistics match the list."""
        found = self.out.statistics()
        for state in ("stored", "failed", "unknown", "waiting"):
            assert getattr(found, state) == sum(each.state == state for each in self.sent)
        assert found.accepted == len(self.sent)
        assert found.bytes == sum(len(each.value) for each in self.sent)

    def teardown(self) -> None:
        self.out.close(timeout=0) if self.closed else self.give_up()
        self.stack.close()

    def give_up(self) -> None:
        """Close, whatever it raises."""
        with pytest.raises(mqplug.Error) if self.waiting() or self.unseen() else ExitStack():
            self.out.close(timeout=0)

    def unseen(self) -> bool:
        return any(each.state in {"failed", "unknown"} and not each.seen for each in self.sent)


def in_parts(values: list[bytes]) -> list[list[bytes]]:
    """Split a batch as the queue does: as many records at once as fit into an empty queue."""
    parts: list[list[bytes]] = [[]]
    for value in values:
        last = parts[-1]
        if last and (len(last) == MESSAGES or sum(map(len, last)) + len(value) > BYTES):
            parts.append([])
        parts[-1].append(value)
    return parts


def settle(unit: Any, state: str, where: tuple[Any, ...]) -> None:
    """Settle a record or a run."""
    match state:
        case "stored":
            unit.stored(*where)
        case "failed":
            unit.failed(mqplug.AccessDenied("no"))
        case _:
            unit.unknown(mqplug.Timeout("nobody answered"))


class CollectingRuns(HeldRuns):
    """A driver for which records are collected, for longer than a test lasts."""

    linger_s = 3600.0


class CollectingMachine(QueueMachine):
    """The same with a driver for which records are collected: it gets them in order, in runs of some length."""

    def __init__(self) -> None:
        super().__init__()
        self.collected: list[Sent] = []  # accepted records that the driver did not have at the last check

    def make_driver(self) -> HeldRuns:
        return CollectingRuns()

    def accepted(self, unit: list[Sent]) -> None:
        self.collected += unit

    @invariant()
    def in_order(self) -> None:
        """The driver has the accepted records in order, except for the last ones."""
        for unit in self.driver.units[len(self.units) :]:
            number = len(getattr(unit, "values", [unit]))
            self.units.append(self.collected[:number])
            del self.collected[:number]
        super().in_order()

    @precondition(lambda self: self.collected)
    @rule()
    def linger(self) -> None:
        """Hand the open run over at the second tick, without a check of its handles."""
        ticks = [self.out._queue._hand_over_lingering() for _ in range(2)]
        assert not ticks[1]
        assert sum(len(getattr(unit, "values", [unit])) for unit in self.driver.units) == len(self.waiting())

    def close(self) -> None:
        super().close()
        self.collected.clear()


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCollectingQueue = CollectingMachine.TestCase
TestCollectingQueue.settings = TestQueue.settings
