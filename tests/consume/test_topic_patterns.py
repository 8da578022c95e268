"""Consumers whose topics are chosen by a pattern."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from core_waits import set_core_wait
from waiting import wait_until

import mqplug
import mqplug.aio
from mqplug import EARLIEST, LATEST, matching

ORDERS = matching(r"orders\..*")


@pytest.fixture
def mq(monkeypatch: pytest.MonkeyPatch) -> Iterator[mqplug.Client]:
    """A client of its own store, with a short interval between searches for topics."""
    set_core_wait(monkeypatch, "look for topics of a pattern", 0.1)
    with mqplug.connect("memory://") as client:
        yield client


def send(mq: mqplug.Client, topic: str, *values: bytes) -> None:
    """Send messages to a topic."""
    with mq.producer(topic) as out:
        for value in values:
            out.send(value)


@pytest.mark.parametrize("mode", ["ordered", "exclusive", "shared", "key_shared"])
def test_in_every_mode_new_topics_join(mq: mqplug.Client, mode: str) -> None:
    """A group that began when no topic matched reads new ones from their first message, in each mode."""
    with mq.consumer(ORDERS, group="g", mode=mode, start=LATEST) as orders:  # type: ignore[arg-type]
        assert orders.receive(0) is None
        for name in ("orders.eu", "orders.us"):
            mq.create_topic(name)
            send(mq, name, b"first")
            message = orders.receive(10)
            assert message is not None
            assert (message.topic, message.value) == (name, b"first")
            orders.ack(message)
        assert {log.topic for log in orders.assignment()} == {"orders.eu", "orders.us"}
    assert sum(sum(mq.lag(name, group="g").values()) for name in ("orders.eu", "orders.us")) == 0


def test_members_share_new_topics(mq: mqplug.Client) -> None:
    """Two members of one pattern share the partitions of a topic that joins."""
    with mq.consumer(ORDERS, group="g") as one, mq.consumer(ORDERS, group="g") as two:
        mq.create_topic("orders.eu", partitions=4)
        wait_until(lambda: one.receive(0.05) is None and two.receive(0.05) is None and len(one.assignment()) == 2)
        wait_until(lambda: two.receive(0.05) is None and len(two.assignment()) == 2)
        assert {log.partition for each in (one, two) for log in each.assignment()} == {0, 1, 2, 3}


def test_a_topic_made_again_is_read_from_its_first_message(mq: mqplug.Client) -> None:
    """A topic that is deleted and created again leaves and joins: its new messages come, without an error."""
    mq.create_topic("orders.eu")
    send(mq, "orders.eu", b"old")
    with mq.consumer(ORDERS, group="g") as orders, mq.consumer(ORDERS, start=EARLIEST) as reader:
        for consumer in (orders, reader):
            assert (got := consumer.receive(10)) is not None
            assert got.value == b"old"
        mq.delete_topic("orders.eu")
        mq.create_topic("orders.eu")
        send(mq, "orders.eu", b"new")
        for consumer in (orders, reader):
            assert (got := consumer.receive(10)) is not None
            assert got.value == b"new"


def test_a_read_to_the_end_takes_the_topics_there_are(mq: mqplug.Client) -> None:
    """``read`` of a pattern ends at the messages stored when it began; with no match it raises TopicNotFound."""
    with pytest.raises(mqplug.TopicNotFound, match=re.escape("orders")):
        list(mq.read(ORDERS))
    mq.create_topic("orders.eu")
    send(mq, "orders.eu", b"1", b"2")
    reading = mq.read(ORDERS)
    assert next(reading).value == b"1"
    mq.create_topic("orders.us")
    send(mq, "orders.us", b"3")
    assert [message.value for message in reading] == [b"2"]


def test_a_slow_handler_does_not_keep_topics_from_joining(mq: mqplug.Client) -> None:
    """New topics are found in the background, while the caller is busy with a message."""
    mq.create_topic("orders.eu")
    with mq.consumer(ORDERS, group="g") as orders:
        mq.create_topic("orders.us")
        wait_until(lambda: len(orders._session.driver_session.logs) == 2)


def test_an_outage_while_looking_is_no_end(mq: mqplug.Client, caplog: pytest.LogCaptureFixture) -> None:
    """If a search for topics fails, the consumer continues, and a later search finds them."""
    mq.create_topic("orders.eu")
    with mq.consumer(ORDERS, group="g") as orders:
        follower = orders._session._follower
        assert follower is not None
        with patch.object(follower, "_find", side_effect=mqplug.ConnectError("no broker")) as find:
            send(mq, "orders.eu", b"1")
            assert orders.receive(10) is not None
            wait_until(lambda: find.call_count > 1)
        mq.create_topic("orders.us")
        send(mq, "orders.us", b"2")
        got = orders.receive(10)
        assert got is not None
        assert got.value == b"2"


@pytest.mark.parametrize("group", [None, "g"])
def test_a_driver_that_cannot_follow_yet_is_asked_again(mq: mqplug.Client, group: str | None) -> None:
    """If the driver fails to read a new topic, a later search finds it again, and no message of it is missed."""
    mq.create_topic("orders.eu")
    with mq.consumer(ORDERS, group=group, start=EARLIEST) as orders:
        driver = orders._session.driver_session.driver
        with patch.object(type(driver), "follow", side_effect=mqplug.Timeout("the broker is slow")) as follow:
            mq.create_topic("orders.us")
            send(mq, "orders.us", b"1")
            wait_until(lambda: follow.call_count > 1)
            assert len(orders._session.driver_session.logs) == 1
        got = orders.receive(10)
        assert got is not None
        assert got.value == b"1"


@pytest.mark.parametrize(("options", "error", "says"), [
    ({"partitions": [0], "start": EARLIEST}, TypeError, "partitions="),
    ({"create": True, "group": "g"}, TypeError, "create="),
    ({"group": "g", "retry": mqplug.Retry(2), "dead_letter": "orders.dead"}, ValueError, "dead_letter"),
])  # fmt: skip
def test_what_needs_names_is_refused(
    mq: mqplug.Client, options: dict[str, object], error: type[Exception], says: str
) -> None:
    """partitions= and create= need names, and a dead-letter topic must not match: each is refused before any I/O."""
    with pytest.raises(error, match=says):
        mq.consumer(ORDERS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("pattern", "error"), [("orders.(", ValueError), (b"orders", TypeError), (None, TypeError)])
def test_a_pattern_is_a_regular_expression(pattern: object, error: type[Exception]) -> None:
    """An invalid regular expression, or a value that is not a str, is refused by matching() itself."""
    with pytest.raises(error):
        matching(pattern)  # type: ignore[arg-type]


def test_async_consumers_follow_topics() -> None:
    """In asyncio, too, a new topic is read from its first message."""

    async def story() -> bytes | None:
        async with mqplug.aio.connect("memory://") as mq, mq.consumer(ORDERS, group="g") as orders:
            await mq.create_topic("orders.eu")
            async with mq.producer("orders.eu") as out:
                await out.send(b"first")
            message = await orders.receive(15)
            assert message is not None
            return message.value

    assert asyncio.run(story()) == b"first"
