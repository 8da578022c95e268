"""An error that leaves a with block is not hidden by closing."""

from __future__ import annotations

import pytest

import mqplug
from mqplug.memory._consumer import MemoryConsumer
from mqplug.memory._producer import MemoryProducer


@pytest.fixture
def mq():
    """A client with the topic "orders"."""
    with mqplug.connect("memory") as client:
        client.create_topic("orders")
        yield client


def test_ctrl_c_in_a_send_is_not_hidden(mq, monkeypatch):
    """Ctrl-C during a send leaves the block as KeyboardInterrupt, although the message's outcome is unknown."""

    def interrupted(self, sendings):
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryProducer, "send", interrupted)
    with pytest.raises(KeyboardInterrupt), mq.producer("orders") as out:
        out.submit(b"x")


def test_an_unknown_outcome_is_told_at_the_end_of_a_block(mq, monkeypatch):
    """A block that ends normally still raises for a failure that was not checked."""
    monkeypatch.setattr(
        MemoryProducer, "send", lambda self, sent: [each.unknown(mqplug.OutcomeUnknown("?")) for each in sent]
    )
    with (
        pytest.raises(mqplug.OutcomeUnknown, match="may or may not be stored"),
        mq.producer("orders") as out,
    ):
        out.submit(b"x")


def test_an_error_of_a_handler_is_not_hidden(mq, monkeypatch):
    """A handler's error is raised, although its acks could not be stored."""

    def failing(self, positions, timeout):
        raise mqplug.ConnectError("gone")

    with mq.producer("orders") as out:
        out.send(b"x")
    monkeypatch.setattr(MemoryConsumer, "commit", failing)
    with pytest.raises(ZeroDivisionError), mq.consumer("orders", group="g") as consumer:  # noqa: PT012
        consumer.ack(consumer.receive(5))
        raise ZeroDivisionError
