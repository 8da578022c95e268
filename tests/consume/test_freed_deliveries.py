"""Messages that a consumer has released are freed at once, without the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import mqplug
from mqplug import EARLIEST
from mqplug._consume.consumer import session_of

KINDS: dict[str, dict[str, Any]] = {
    "reader": {"start": EARLIEST},
    "ordered": {"group": "g"},
    "exclusive": {"group": "g", "mode": "exclusive"},
    "shared": {"group": "g", "mode": "shared"},
    "key_shared": {"group": "g", "mode": "key_shared"},
}


@pytest.fixture(params=KINDS)
def orders(request: pytest.FixtureRequest) -> Iterator[mqplug.Consumer]:
    """A consumer of three messages, with the garbage collector off."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send_many([mqplug.Record(b"%d" % number) for number in range(3)])
        with mq.consumer("orders", **KINDS[request.param]) as orders:
            gc.collect()
            gc.disable()
            try:
                yield orders
            finally:
                gc.enable()


def take(orders: mqplug.Consumer) -> mqplug.Message:
    """Return the next message, which must exist."""
    message = orders.receive(timeout=5)
    assert message is not None
    return message


def kept(orders: mqplug.Consumer, message: mqplug.Message) -> list[weakref.ref[object]]:
    """Return weak references to a message's batch, and to the tracker of its partition."""
    batch: Any = message._batch
    [held] = session_of(orders).assignment.all
    return [weakref.ref(batch), weakref.ref(held.tracker)]


def alive(refs: list[weakref.ref[object]]) -> list[object]:
    """Return the objects that still exist."""
    return [each() for each in refs if each() is not None]


def test_a_seek_frees_what_was_read(orders: mqplug.Consumer) -> None:
    """Once the next message is received, messages from before the seek are freed, acked or not."""
    refs = []
    for _ in range(3):
        for ack in (False, True):
            message = take(orders)
            refs += kept(orders, message)
            if ack and orders.group is not None:
                orders.ack(message)
        orders.seek(EARLIEST)
    del message
    last = take(orders)
    assert last.value == b"0"
    assert alive(refs) == []


@pytest.mark.parametrize("orders", ["ordered", "exclusive", "shared", "key_shared"], indirect=True)
def test_an_old_message_is_late(orders: mqplug.Consumer) -> None:
    """The caller may keep a message from before a seek: its ack and its nack count as late."""
    old = take(orders)
    orders.seek(EARLIEST)
    assert take(orders).value == b"0"
    orders.ack(old)
    orders.nack(old)
    assert orders.late_acks == 2


def test_a_close_frees_what_was_read(orders: mqplug.Consumer) -> None:
    """A closed consumer that is still referenced keeps no message, but still counts the received ones."""
    message = take(orders)
    refs = kept(orders, message)
    del message
    orders.close()
    assert alive(refs) == []
    assert orders.statistics().received == 1


@pytest.mark.parametrize("settle", ["ack", "nack", "seek", "close"])
@pytest.mark.parametrize("orders", ["ordered", "shared"], indirect=True)
def test_a_message_that_came_again_is_freed(orders: mqplug.Consumer, settle: str) -> None:
    """Each delivery of a nacked message is freed when it is acked, nacked again, or discarded."""
    refs = []
    orders.nack(take(orders), 0)
    for _ in range(3):
        message = take(orders)
        refs.append(weakref.ref(message._batch))
        orders.nack(message, 0)
    message = take(orders)
    refs.append(weakref.ref(message._batch))
    if settle == "ack":
        orders.ack(message)
    elif settle == "nack":
        orders.nack(message, 0)
    elif settle == "seek":
        orders.seek(EARLIEST)
    del message
    if settle == "close":
        orders.close()
    else:
        orders.ack(take(orders))
        orders.commit()
        take(orders)
    assert alive(refs) == []
