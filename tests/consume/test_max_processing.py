"""``max_processing``: a member whose caller is gone loses its work to the other members."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from waiting import wait_until

import mqplug


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store of its own, with a topic ``orders`` of 10 messages."""
    with mqplug.connect("memory") as client:
        client.create_topic("orders")
        with client.producer("orders") as out:
            out.send_many([b"%d" % number for number in range(10)])
        yield client


def test_the_work_of_a_caller_that_is_gone_goes_to_another_member(mq: mqplug.Client) -> None:
    """After max_processing the other member gets the unacked messages, and the late ack changes nothing."""
    revoked: list[mqplug.Log] = []
    with mq.consumer("orders", group="g", max_processing=1.2, on_revoked=revoked.extend) as slow:
        done, stuck = slow.receive(timeout=5), slow.receive(timeout=5)
        assert done is not None
        assert stuck is not None
        slow.ack(done)
        with mq.consumer("orders", group="g") as other:
            got = other.receive(timeout=15)
            assert got is not None
            assert got.id == stuck.id
            assert len(revoked) == 1
            slow.ack(stuck)
            assert slow.late_acks == 1
            other.ack(got)


def test_a_caller_that_comes_back_joins_again(mq: mqplug.Client) -> None:
    """The next receive after the loss joins the group again, and continues with the unacked messages."""
    with mq.consumer("orders", group="g", max_processing=1.2) as slow:
        first = slow.receive(timeout=5)
        assert first is not None
        slow.ack(first)
        wait_until(lambda: not slow.assignment())
        again = slow.receive(timeout=10)
        assert again is not None
        assert again.value == b"1"


def test_a_slow_but_steady_caller_keeps_its_work(mq: mqplug.Client) -> None:
    """The limit counts from the last message taken, and not from the last batch fetched."""
    from threading import Event

    with mq.consumer("orders", group="g", max_processing=1.2) as steady:
        for number in range(6):
            message = steady.receive(timeout=5)
            assert message is not None
            assert message.value == b"%d" % number
            Event().wait(0.5)
        assert steady.assignment()
