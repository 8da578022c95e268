"""Wrong arguments to every public call of a consumer, and every call after close."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mqplug
from mqplug import EARLIEST, LATEST, Consumer, Retry


@pytest.fixture(scope="module")
def mq() -> Iterator[mqplug.Client]:
    """A client of a store with two topics of one message each."""
    with mqplug.connect("memory") as client:
        for topic in ("orders", "other"):
            client.create_topic(topic)
            with client.producer(topic) as out:
                out.send(b"x")
        yield client


OPENING: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"group": 5}, TypeError, "group"),
    ({"group": ""}, mqplug.InvalidName, "group"),
    ({"group": "a/b"}, mqplug.InvalidName, "group"),
    ({}, TypeError, "needs start="),
    ({"start": "earliest"}, TypeError, "a start must be"),
    ({"group": "g", "start": 0}, TypeError, "a start must be"),
    ({"start": EARLIEST, "until": "end"}, TypeError, "a start must be"),
    ({"group": "g", "mode": "fast"}, ValueError, "unknown mode"),
    ({"start": EARLIEST, "mode": "shared"}, TypeError, "pass group="),
    ({"start": EARLIEST, "missing": "skip"}, ValueError, "missing must be"),
    ({"start": EARLIEST, "partitions": [7]}, ValueError, "no partition 7"),
    ({"group": "g", "partitions": [0]}, TypeError, "share its partitions"),
    ({"group": "g", "max_unacked": 0}, ValueError, "max_unacked"),
    ({"group": "g", "max_unacked": 1.5}, TypeError, "max_unacked"),
    ({"group": "g", "max_unacked": True}, TypeError, "max_unacked"),
    ({"group": "g", "max_processing": -1}, ValueError, "max_processing"),
    ({"group": "g", "max_processing": "1"}, TypeError, "max_processing"),
    ({"group": "g", "prefetch_bytes": 0}, ValueError, "prefetch_bytes"),
    ({"group": "g", "retry": 5}, TypeError, "retry must be a Retry"),
    ({"group": "g", "retry": Retry(2)}, ValueError, "dead_letter="),
    ({"group": "g", "mode": "shared", "until": LATEST}, TypeError, "until="),
    ({"group": "g", "mode": "shared", "auto_ack": True}, TypeError, "auto_ack"),
    ({"start": EARLIEST, "auto_ack": True}, TypeError, "pass group="),
    ({"start": EARLIEST, "dead_letter": "other"}, TypeError, "pass group="),
    ({"group": "g", "timeout": -1}, ValueError, "timeout"),
    ({"group": "g", "timeout": "soon"}, TypeError, "timeout"),
    ({"group": "new", "must_exist": True}, mqplug.GroupNotFound, "new"),
]


@pytest.mark.parametrize(("arguments", "error", "reason"), OPENING)
def test_a_consumer_is_opened_with_good_arguments_only(
    mq: mqplug.Client, arguments: dict[str, Any], error: type[Exception], reason: str
) -> None:
    """A wrong argument is refused by a typed error that names it."""
    with pytest.raises(error, match=reason):
        mq.consumer("orders", **arguments)


CALLS: list[tuple[Callable[[Consumer], object], type[Exception]]] = [
    (lambda orders: orders.receive(timeout=-1), ValueError),
    (lambda orders: orders.receive(timeout="1"), TypeError),  # type: ignore[arg-type]
    (lambda orders: orders.receive(timeout=float("nan")), ValueError),
    (lambda orders: orders.receive_many(0), ValueError),
    (lambda orders: orders.receive_many(2.5), TypeError),  # type: ignore[arg-type]
    (lambda orders: orders.receive_many(1, timeout=-1), ValueError),
    (lambda orders: orders.ack("m"), TypeError),  # type: ignore[arg-type]
    (lambda orders: orders.ack_through(5), TypeError),  # type: ignore[arg-type]
    (lambda orders: orders.nack(None), TypeError),  # type: ignore[arg-type]
    (lambda orders: orders.commit(timeout=-1), ValueError),
    (lambda orders: orders.seek("earliest"), TypeError),  # type: ignore[arg-type]
    (lambda orders: orders.seek(EARLIEST, missing="skip"), ValueError),  # type: ignore[arg-type]
    (lambda orders: orders.seek(EARLIEST, partition=9), mqplug.NotAssigned),
    (lambda orders: orders.seek(EARLIEST, timeout=-1), ValueError),
    (lambda orders: orders.pause(9), mqplug.NotAssigned),
    (lambda orders: orders.resume(9), mqplug.NotAssigned),
    (lambda orders: orders.committed(timeout=-1), ValueError),
    (lambda orders: orders.watermarks(timeout="now"), TypeError),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "error"), CALLS)
def test_a_wrong_argument_is_refused_and_changes_nothing(
    mq: mqplug.Client, call: Callable[[Consumer], object], error: type[Exception]
) -> None:
    """The call raises, and the next receive gets the same message as without it."""
    with mq.consumer("orders", group="wrong") as orders:
        orders.seek(EARLIEST)
        with pytest.raises(error):
            call(orders)
        message = orders.receive(timeout=5)
        assert message is not None
        assert message.attempt == 1
        assert orders.late_acks == 0


def test_what_another_consumer_received_is_not_acked_here(mq: mqplug.Client) -> None:
    """A message or id that this consumer never delivered raises InvalidMessageId, whatever its topic."""
    [mine] = list(mq.read("orders"))
    [foreign] = list(mq.read("other"))
    with mq.consumer("orders", group="fresh") as orders:
        for wrong in (mine, mine.id, foreign, foreign.id):
            with pytest.raises(mqplug.InvalidMessageId):
                orders.ack(wrong)
        for message in (mine, foreign):
            with pytest.raises(mqplug.InvalidMessageId):
                orders.nack(message)
        with pytest.raises(mqplug.InvalidMessageId):
            orders.seek(foreign.id)


AFTER_CLOSE: list[Callable[[Consumer, mqplug.Message], object]] = [
    lambda orders, message: orders.receive(timeout=0),
    lambda orders, message: orders.receive_many(5, timeout=0),
    lambda orders, message: orders.ack(message),
    lambda orders, message: orders.ack_through(message),
    lambda orders, message: orders.nack(message),
    lambda orders, message: orders.commit(),
    lambda orders, message: orders.seek(EARLIEST),
    lambda orders, message: orders.position(),
    lambda orders, message: orders.committed(),
    lambda orders, message: orders.watermarks(),
    lambda orders, message: orders.assignment(),
    lambda orders, message: orders.state(),
    lambda orders, message: orders.pause(),
    lambda orders, message: orders.resume(),
    lambda orders, message: orders.run(print),
]


@pytest.mark.parametrize("call", AFTER_CLOSE)
def test_every_call_after_close_is_closed(
    mq: mqplug.Client, call: Callable[[Consumer, mqplug.Message], object]
) -> None:
    """Every call on a closed consumer raises Closed."""
    with mq.consumer("orders", group="closing") as orders:
        orders.seek(EARLIEST)
        message = orders.receive(timeout=5)
        assert message is not None
    with pytest.raises(mqplug.Closed):
        call(orders, message)
    assert list(orders) == []
    orders.close()
    orders.stop()
    assert orders.statistics().received == 1
    assert "closed" in repr(orders)
