"""Closing as a state machine: in any order, with any call under way, no accepted message is lost."""

from __future__ import annotations

import threading

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from waiting import wait_until

import mqplug

choices = st.integers(0, 9)


class CloseMachine(RuleBasedStateMachine):
    """One client, its producers and its consumers."""

    def __init__(self) -> None:
        super().__init__()
        self.keeper = mqplug.connect("memory://closing")  # keeps the store open while clients come and go
        self.topic = f"t{len(self.keeper.topics())}"
        self.keeper.create_topic(self.topic)
        self.accepted = 0
        self.acked = 0

    @initialize()
    def connect(self) -> None:
        self.client = mqplug.connect("memory://closing")
        self.producers: list[mqplug.Producer] = []
        self.consumers: list[mqplug.Consumer] = []
        self.closed: list[mqplug.Producer | mqplug.Consumer] = []
        self.client_is_open = True

    @precondition(lambda self: self.client_is_open and len(self.producers) < 3)
    @rule()
    def open_a_producer(self) -> None:
        self.producers.append(self.client.producer(self.topic))

    @precondition(lambda self: self.client_is_open and not self.consumers)
    @rule()
    def open_a_consumer(self) -> None:
        self.consumers.append(self.client.consumer(self.topic, group="g"))

    @precondition(lambda self: self.producers)
    @rule(choice=choices, count=st.integers(1, 5))
    def submit(self, choice: int, count: int) -> None:
        for _ in range(count):
            self.producers[choice % len(self.producers)].submit(b"x")
        self.accepted += count

    @precondition(lambda self: self.consumers)
    @rule()
    def receive_and_ack(self) -> None:
        [consumer] = self.consumers
        message = consumer.receive(timeout=0)
        if message is not None:
            consumer.ack(message)
            self.acked += 1

    @precondition(lambda self: self.producers or self.consumers)
    @rule(choice=choices)
    def close_one(self, choice: int) -> None:
        everything = [*self.producers, *self.consumers]
        self._close_child(everything[choice % len(everything)])

    def _close_child(self, child: mqplug.Producer | mqplug.Consumer) -> None:
        child.close()
        for children in (self.producers, self.consumers):
            if child in children:
                children.remove(child)  # type: ignore[arg-type]
        self.closed.append(child)

    @precondition(lambda self: self.client_is_open)
    @rule()
    def close_the_client(self) -> None:
        self.client.close()
        self.client_is_open = False
        self.closed += [*self.producers, *self.consumers]
        self.producers, self.consumers = [], []

    @precondition(lambda self: not self.client_is_open)
    @rule()
    def connect_again(self) -> None:
        self.connect()

    @precondition(lambda self: self.closed)
    @rule(choice=choices)
    def use_what_was_closed(self, choice: int) -> None:
        child = self.closed[choice % len(self.closed)]
        child.close()
        with pytest.raises(mqplug.Closed):
            child.submit(b"y") if isinstance(child, mqplug.Producer) else child.receive(timeout=0)

    def teardown(self) -> None:
        self.client.close()
        assert len(list(self.keeper.read(self.topic))) == self.accepted
        if self.accepted and self.acked:
            assert self.keeper.lag(self.topic, group="g") == {0: self.accepted - self.acked}
        self.keeper.close()
        wait_until(lambda: not [each for each in threading.enumerate() if each.name.startswith("mqplug-background")])


CloseMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCloseMachine = CloseMachine.TestCase
TestCloseMachine.__doc__ = "Whatever is closed when: what was accepted is stored, what was acked stays acked."
