"""Auto-ack: messages that the caller has finished are acked, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from waiting import wait_until

import mqplug
from mqplug import LATEST


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store of its own, with a topic ``orders`` of 100 messages."""
    with mqplug.connect("memory") as client:
        client.create_topic("orders")
        with client.producer("orders") as out:
            out.send_many([b"%d" % number for number in range(100)])
        yield client


def test_a_finished_loop_has_acked_all(mq: mqplug.Client) -> None:
    """When iteration reaches its end, every message counts as done."""
    with mq.consumer("orders", group="g", auto_ack=True, until=LATEST) as orders:
        assert len(list(orders)) == 100
    assert mq.lag("orders", group="g") == {0: 0}


def test_the_message_in_hand_is_never_acked(mq: mqplug.Client) -> None:
    """A caller that breaks out of the loop gets the message in hand again."""
    with mq.consumer("orders", group="g", auto_ack=True) as orders:
        for message in orders:
            if message.value == b"41":
                break
    assert mq.lag("orders", group="g") == {0: 59}


def test_the_keeper_stores_what_was_seen_through(mq: mqplug.Client) -> None:
    """While the caller works on a message, the background thread stores the acks of the earlier ones only."""
    with mq.consumer("orders", group="g", auto_ack=True) as orders:
        for _ in range(10):
            orders.receive(timeout=5)
        wait_until(lambda: mq.lag("orders", group="g") != {0: 100})
        assert mq.lag("orders", group="g") == {0: 91}


def test_a_batch_is_acked_when_the_next_one_is_asked_for(mq: mqplug.Client) -> None:
    """The messages of receive_many count as done at the next call, and not earlier."""
    with mq.consumer("orders", group="g", auto_ack=True) as orders:
        orders.receive_many(30, timeout=5)
        orders.commit()
        assert mq.lag("orders", group="g") == {0: 100}
        orders.receive_many(30, timeout=5)
        orders.commit()
        assert mq.lag("orders", group="g") == {0: 70}


def test_a_message_can_still_be_given_back(mq: mqplug.Client) -> None:
    """A nack overrides the ack that the next receive would imply."""
    seen = []
    with mq.consumer("orders", group="g", auto_ack=True, until=LATEST) as orders:
        for message in orders:
            seen.append(int(message.value or b""))
            if seen == list(range(51)):
                orders.nack(message, delay=0)
    assert seen == [*range(51), *range(50, 100)]
    assert mq.lag("orders", group="g") == {0: 0}


def test_it_is_refused_where_it_has_no_meaning(mq: mqplug.Client) -> None:
    """Without a group auto_ack is refused, and so is run() with it, which acks handled messages itself."""
    with pytest.raises(TypeError, match="auto_ack"):
        mq.consumer("orders", start=LATEST, auto_ack=True)
    with mq.consumer("orders", group="g", auto_ack=True) as orders, pytest.raises(TypeError, match="auto_ack"):
        orders.run(print)
