"""The consumer as a state machine, against a model of lists: epochs, acks, returns, pauses, seeks, hand-overs."""

from __future__ import annotations

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import mqplug

PARTITIONS = 2
partitions = st.integers(0, PARTITIONS - 1)


class Partition:
    """The expected state of one partition of the group."""

    def __init__(self) -> None:
        self.ids: list[mqplug.MessageId] = []
        self.acked: set[int] = set()
        self.begin_epoch(0)
        self.paused = False

    def begin_epoch(self, first: int) -> None:
        """Read from here on, with no message in hand."""
        self.next = first
        self.hand: dict[int, mqplug.Message] = {}
        self.attempts: dict[int, int] = {}
        self.returned: set[int] = set()  # to come again, or delivered again and not acked yet

    def deliverable(self, max_unacked: int | None) -> int | None:
        """Return the one message that may come next, or None."""
        if self.paused:
            return None
        if self.returned:
            first = min(self.returned)
            return None if first in self.hand else first
        if max_unacked is not None and len(self.hand) >= max_unacked:
            return None
        return next((number for number in range(self.next, len(self.ids)) if number not in self.acked), None)

    def first_unacked(self) -> int:
        """Return the group's position."""
        return next((number for number in range(len(self.ids)) if number not in self.acked), len(self.ids))


class ConsumerMachine(RuleBasedStateMachine):
    """One member of a group in ordered mode."""

    def __init__(self) -> None:
        super().__init__()
        self.mq = mqplug.connect("memory")
        self.mq.create_topic("t", partitions=PARTITIONS)
        self.out = self.mq.producer("t")
        self.model = [Partition() for _ in range(PARTITIONS)]
        self.old: list[mqplug.Message] = []  # of earlier epochs
        self.late = 0

    @initialize(max_unacked=st.sampled_from([None, 1, 3]))
    def open(self, max_unacked: int | None) -> None:
        self.max_unacked = max_unacked
        self._open()

    def _open(self) -> None:
        self.late = 0
        self.orders = self.mq.consumer("t", group="g", max_unacked=self.max_unacked)

    @rule(partition=partitions, count=st.integers(1, 6))
    def send(self, partition: int, count: int) -> None:
        model = self.model[partition]
        model.ids += self.out.send_many([mqplug.Record(b"", partition=partition)] * count)

    @rule()
    def receive(self) -> None:
        message = self.orders.receive(timeout=0)
        if message is None:
            assert [each.deliverable(self.max_unacked) for each in self.model] == [None] * PARTITIONS
            return
        self._got(message)

    @rule(most=st.integers(1, 5))
    def receive_many(self, most: int) -> None:
        batch = self.orders.receive_many(most, timeout=0)
        assert len(batch) <= most
        for message in batch:
            self._got(message)

    def _got(self, message: mqplug.Message) -> None:
        model = self.model[message.partition]
        number = model.ids.index(message.id)
        assert number == model.deliverable(self.max_unacked)
        assert message.attempt == model.attempts.get(number, 1)
        model.hand[number] = message
        if number not in model.returned:
            model.next = number + 1

    def _in_hand(self, partition: int, choice: int) -> tuple[Partition, int] | None:
        model = self.model[partition]
        return (model, sorted(model.hand)[choice % len(model.hand)]) if model.hand else None

    @rule(partition=partitions, choice=st.integers(0, 50), by_id=st.booleans())
    def ack(self, partition: int, choice: int, by_id: bool) -> None:
        if found := self._in_hand(partition, choice):
            model, number = found
            message = model.hand.pop(number)
            self.orders.ack(message.id if by_id else message)
            model.acked.add(number)
            model.returned.discard(number)
            self.old.append(message)

    @rule(partition=partitions, choice=st.integers(0, 50))
    def ack_through(self, partition: int, choice: int) -> None:
        if found := self._in_hand(partition, choice):
            model, number = found
            self.orders.ack_through(model.hand[number])
            for each in list(model.hand):
                if each <= number:
                    self.old.append(model.hand.pop(each))
            model.acked |= set(range(number + 1))
            model.returned -= set(range(number + 1))

    @rule(partition=partitions, choice=st.integers(0, 50))
    def nack(self, partition: int, choice: int) -> None:
        if found := self._in_hand(partition, choice):
            model, number = found
            message = model.hand.pop(number)
            self.orders.nack(message, delay=0)
            model.returned.add(number)
            model.attempts[number] = message.attempt + 1
            self.old.append(message)

    @precondition(lambda self: self.old)
    @rule(choice=st.integers(0, 50), nack=st.booleans())
    def settle_again(self, choice: int, nack: bool) -> None:
        message = self.old[choice % len(self.old)]
        if nack:
            self.orders.nack(message, delay=0)
        else:
            self.orders.ack(message)
        self.late += 1
        assert self.orders.late_acks == self.late

    @rule(partition=partitions, choice=st.integers(0, 50))
    def seek(self, partition: int, choice: int) -> None:
        model = self.model[partition]
        if not model.ids:
            return
        number = choice % len(model.ids)
        self.orders.seek(model.ids[number])
        self.old += model.hand.values()
        model.acked = set(range(number))
        model.begin_epoch(number)

    @rule(partition=partitions)
    def pause_or_resume(self, partition: int) -> None:
        if not self.orders.assignment():
            return
        model = self.model[partition]
        (self.orders.resume if model.paused else self.orders.pause)(partition)
        model.paused = not model.paused

    @rule()
    def commit(self) -> None:
        self.orders.commit()
        for partition, stored in self.orders.committed().items():
            model = self.model[partition]
            assert stored is not None
            acked = [each for each in model.ids if not stored.precedes(each)]
            assert len(acked) == model.first_unacked()

    @rule()
    def reopen(self) -> None:
        self.orders.close()
        self.old = []
        for model in self.model:
            model.paused = False
            model.begin_epoch(0)
        self._open()

    @invariant()
    def states_agree(self) -> None:
        if not hasattr(self, "orders"):
            return
        for state in self.orders.state():
            model = self.model[state.log.partition]
            assert state.unacked == len(model.hand)
            assert (state.waits_for == "paused") == model.paused

    def teardown(self) -> None:
        self.mq.close()


ConsumerMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestConsumerMachine = ConsumerMachine.TestCase
TestConsumerMachine.__doc__ = "Whatever is done in whatever order, what is delivered and stored is what the model says."
