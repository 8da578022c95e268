"""An error that leaves a with block is not hidden by closing."""

from __future__ import annotations

import pytest

import mqplug
from mqplug.spi import hookimpl
from mqplug.spi.proxies import ProducerProxy
from mqplug_testing.faults import Faults, Rule


class Interrupted(ProducerProxy):
    """A driver whose sends Ctrl-C ends."""

    def send(self, sendings):
        raise KeyboardInterrupt

    class Extension:
        @hookimpl(wrapper=True)
        def mqplug_open_producer(self):
            return Interrupted((yield))


def test_ctrl_c_in_a_send_is_not_hidden():
    """Ctrl-C during a send leaves the block as KeyboardInterrupt, although the message's outcome is unknown."""
    with (
        mqplug.connect("memory", extensions=[Interrupted.Extension()]) as mq,
        pytest.raises(KeyboardInterrupt),
        mq.producer("orders", create=True) as out,
    ):
        out.submit(b"x")


def test_an_unknown_outcome_is_told_at_the_end_of_a_block():
    """A block that ends normally still raises for a failure that was not checked."""
    with (
        mqplug.connect("memory", extensions=[Faults([Rule("send", "lose_ack")])]) as mq,
        pytest.raises(mqplug.OutcomeUnknown, match="may or may not be stored"),
        mq.producer("orders", create=True) as out,
    ):
        out.submit(b"x")


def test_an_error_of_a_handler_is_not_hidden():
    """A handler's error is raised, although its acks could not be stored."""
    faults = Faults([Rule("commit", "fail")])
    with mqplug.connect("memory", extensions=[faults]) as mq:
        with mq.producer("orders", create=True) as out:
            out.send(b"x")
        with pytest.raises(ZeroDivisionError), mq.consumer("orders", group="g") as consumer:  # noqa: PT012
            consumer.ack(consumer.receive(5))
            raise ZeroDivisionError
    assert {each.operation for each in faults.happened} == {"commit"}
