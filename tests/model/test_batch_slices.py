"""Slices of a batch: their messages are those of the batch, so that they can be settled in the same way."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

import mqplug
import mqplug.aio
from mqplug import Batch, Consumer

pytestmark = pytest.mark.python

SLICES = [slice(None, 3), slice(3, None), slice(-4, -1), slice(None, None, 3), slice(None, None, -1), slice(7, 2, -2)]


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store with a topic of ten messages."""
    with mqplug.connect("memory") as client:
        client.create_topic("orders")
        with client.producer("orders") as out:
            out.send_many([mqplug.Record(b"%d" % number, key=b"k") for number in range(10)])
        yield client


def ten(orders: Consumer) -> Batch:
    """The ten messages as one batch."""
    batch = orders.receive_many(100, timeout=5)
    assert len(batch) == 10
    return batch


@pytest.mark.parametrize("part", SLICES, ids=str)
def test_messages_of_a_slice_can_be_acked(mq: mqplug.Client, part: slice) -> None:
    """Acking messages of a slice, and of a slice of that, acks these messages and no others."""
    with mq.consumer("orders", group="g") as orders:
        batch = ten(orders)
        chosen = list(range(10))[part]
        for message in batch[part][: len(chosen) - 1]:
            orders.ack(message)
        orders.ack(batch[part][-1])
        assert orders.state()[0].unacked == 10 - len(chosen)
        assert orders.late_acks == 0
        for message in batch[part]:
            orders.ack(message)
        assert orders.late_acks == len(chosen)
    with mq.consumer("orders", group="g") as orders:
        left = [message.value for message in iter(lambda: orders.receive(timeout=0), None)]
    assert left == [b"%d" % number for number in range(10) if number not in chosen]


@pytest.mark.parametrize("part", SLICES, ids=str)
def test_a_slice_is_a_batch(mq: mqplug.Client, part: slice) -> None:
    """A slice can be read twice, by message and by column, pickled, reversed, and nacked."""
    with mq.consumer("orders", group="g") as orders:
        batch = ten(orders)
        some, values = batch[part], [b"%d" % number for number in range(10)][part]
        for _ in range(2):
            assert [message.value for message in some] == values
        assert list(some.values) == values
        assert list(some.ids) == [message.id for message in some] == batch.ids[part]
        assert [some[row].value for row in range(len(some))] == values
        assert [message.value for message in reversed(some)] == values[::-1]
        assert some.to_arrow(["value"]).column(0).to_pylist() == values
        again = pickle.loads(pickle.dumps(some))
        assert type(again) is Batch
        assert list(again) == list(some)
        assert pickle.loads(pickle.dumps(some[0])) == some[0]
        behind = max(message.id for message in some)
        following = [each for each in batch.ids if each > behind]
        assert some.next_position.precedes(following[0]) if following else some.next_position == batch.next_position
        assert not some.next_position.precedes(behind)
        with pytest.raises(IndexError):
            some[len(some)]
        orders.nack(some[0], delay=0)
        again_there = orders.receive(timeout=5)
        assert again_there is not None
        assert (again_there.id, again_there.attempt) == (some[0].id, 2)


def test_an_empty_slice(mq: mqplug.Client) -> None:
    """An empty slice is an empty batch, and so is a slice of an idle batch."""
    with mq.consumer("orders", group="g") as orders:
        assert list(ten(orders)[3:3]) == []
        assert list(orders.receive_many(5, timeout=0)[:3]) == []


def test_a_part_that_a_bound_cut_off_can_be_acked(mq: mqplug.Client) -> None:
    """The pieces of a larger batch that receive_many returns can be acked, and so can slices of them."""
    with mq.consumer("orders", group="g") as orders:
        for _ in range(2):
            for message in orders.receive_many(5, timeout=5)[::-1]:
                orders.ack(message)
        assert orders.state()[0].unacked == 0
        assert orders.late_acks == 0
