"""The client: topics, and queries about the stored messages."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

import pytest
from limited_memory import narrowed

import mqplug
from mqplug import EARLIEST, aio, memory
from mqplug.spi import AlterTopic, CreateTopic, DescribeTopic, DescribeTopics, ListTopics
from mqplug_testing.recording import Recorder


@pytest.fixture
def mq():
    """A client of a fresh store."""
    with mqplug.connect("memory") as client:
        yield client


def fill(mq, topic, count, partition=0):
    """Send this many messages to one partition and return their ids."""
    with mq.producer(topic) as out:
        return list(out.send_many([mqplug.Record(b"%d" % number, partition=partition) for number in range(count)]))


def test_an_operation_that_settings_rule_out_says_how_to_get_it():
    """A connection's advice becomes the fix of ``Unsupported``; without advice the fix stays the same."""
    with narrowed(list_topics=False, delete_topic=False, retention=False) as (mq, _):
        connection = mq._connection
        connection.advice = {"list_topics": "Say door=", "retention": "Say clock="}.get
        with pytest.raises(mqplug.Unsupported, match="Say door="):
            mq.topics()
        with pytest.raises(mqplug.Unsupported, match="Say clock="):
            mq.create_topic("orders", retention=90)
        with pytest.raises(mqplug.Unsupported, match=r"Check client\.capabilities"):
            mq.delete_topic("orders")


# topics ----------------------------------------------------------------------------------------------------


def test_topics_are_listed_by_a_pattern(mq):
    """Names that match as a whole are listed, sorted, and only a pattern is accepted."""
    for name in ("orders.eu", "audit", "orders.de", "old-orders.de"):
        mq.create_topic(name)
    assert mq.topics(mqplug.matching("orders[.].*")) == ["orders.de", "orders.eu"]
    assert mq.topics(mqplug.matching("nothing")) == []
    with pytest.raises(TypeError, match=r"takes matching\(...\), not str"):
        mq.topics("orders")


def test_a_driver_is_told_the_pattern_of_topics(mq, monkeypatch):
    """The driver gets the pattern, so that one with topics elsewhere, as in Pulsar's namespaces, can look there."""
    asked = []

    def run(action):
        asked.append(action)
        return ["persistent://a/b/orders", "persistent://a/b/audit"]

    monkeypatch.setattr(mq._connection, "administer", run)
    assert mq.topics(mqplug.matching("persistent://a/.*/orders")) == ["persistent://a/b/orders"]
    assert asked == [ListTopics("persistent://a/.*/orders")]


def test_asyncio_lists_topics_by_a_pattern():
    """The asyncio client takes the same pattern."""

    async def listed():
        async with aio.connect("memory") as mq:
            for name in ("orders", "audit"):
                await mq.create_topic(name)
            return await mq.topics(mqplug.matching("o.*"))

    assert asyncio.run(listed()) == ["orders"]


def test_a_topic_is_described(mq):
    """A topic has a name and one log for each partition, in order."""
    mq.create_topic("orders", partitions=3)
    info = mq.describe("orders")
    assert (info.name, [log.partition for log in info.logs]) == ("orders", [0, 1, 2])
    assert mq.partitions("orders") == list(info.logs)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(90, 90.0), (60, 60.0), (timedelta(hours=1), 3600.0), (timedelta(seconds=7), 7.0), (math.inf, math.inf)],
)
def test_retention_is_seconds_or_a_timedelta(given, seconds):
    """A driver gets the retention in seconds, whether the caller gave seconds or a timedelta."""
    with narrowed(retention=True) as (mq, asked):
        mq.create_topic("orders", retention=given, retention_bytes=5000)
        assert asked[0] == CreateTopic("orders", retention=seconds, retention_bytes=5000)


def test_exist_ok_takes_the_same_topic(mq):
    """With exist_ok, an existing topic with the same settings is accepted, and keeps its messages."""
    mq.create_topic("orders", partitions=2)
    ids = fill(mq, "orders", 1)
    mq.create_topic("orders", partitions=2, exist_ok=True)
    assert [message.id for message in mq.read("orders")] == ids


def test_exist_ok_names_the_difference(mq):
    """An existing topic with other settings is an error that names the difference."""
    with narrowed(retention=True) as (mq, _):
        mq.create_topic("orders", partitions=2, retention=3600, retention_bytes=1000)
        with pytest.raises(mqplug.TopicExists) as caught:
            mq.create_topic("orders", partitions=3, retention=7200, retention_bytes=2000, exist_ok=True)
    text = "exists with 2 partitions, not 3 and a retention of 3600 s, not 7200 s and 1000 bytes retained, not 2000"
    assert text in str(caught.value)
    assert isinstance(caught.value.__cause__, mqplug.TopicExists)


def test_exist_ok_asks_only_for_what_was_said():
    """Settings that the caller left to the backend are no difference."""
    with narrowed(retention=True) as (mq, _):
        mq.create_topic("orders", retention=3600, retention_bytes=1000)
        mq.create_topic("orders", exist_ok=True)


def test_exist_ok_allows_for_rounding():
    """A retention that the backend rounded up to whole minutes is no difference."""
    with narrowed(retention=True) as (mq, _):
        mq.create_topic("orders", retention=120)
        mq.create_topic("orders", retention=90, exist_ok=True)


def test_a_driver_gets_only_what_is_altered():
    """The driver gets None for settings that are not given, and seconds for times in any form."""
    with narrowed(retention=True) as (mq, asked):
        mq.create_topic("orders")
        asked.clear()
        mq.alter_topic("orders", retention=timedelta(hours=1))
        mq.alter_topic("orders", retention_bytes=5000)
        assert asked == [AlterTopic("orders", retention=3600.0), AlterTopic("orders", retention_bytes=5000)]


def test_a_topic_is_altered(mq):
    """A retention that is not given stays, and messages that a shorter one excludes are removed at once."""
    mq.create_topic("orders", partitions=2, retention=3600, retention_bytes=1000)
    fill(mq, "orders", 3, partition=1)
    mq.unwrap(memory.Clock).advance(100)
    ids = fill(mq, "orders", 1, partition=1)
    info = mq.alter_topic("orders", retention=90)
    assert (info.retention, info.retention_bytes) == (90, 1000)
    assert mq.describe("orders") == info
    assert mq.bounds("orders")[1].first_id == ids[0]


def test_a_topic_grows(mq):
    """Added partitions come after the existing ones, whose messages and ids stay."""
    mq.create_topic("orders", partitions=2)
    ids, before = fill(mq, "orders", 2), mq.partitions("orders")
    mq.add_partitions("orders", 4)
    assert mq.partitions("orders")[:2] == before
    new = fill(mq, "orders", 1, partition=3)
    assert [message.id for message in mq.read("orders")] == ids + new


@pytest.mark.parametrize("total", [1, 2, 3])
def test_a_topic_never_shrinks(mq, total):
    """A partition count that is not higher raises ValueError, which names the current count."""
    mq.create_topic("orders", partitions=3)
    with pytest.raises(ValueError, match="'orders' has 3 partitions"):
        mq.add_partitions("orders", total)


def test_trim_removes_what_lies_before(mq):
    """Trim removes the messages before the given position of a partition; other partitions stay."""
    mq.create_topic("orders", partitions=2)
    first, other = fill(mq, "orders", 3), fill(mq, "orders", 2, partition=1)
    mq.trim("orders", {0: mqplug.Position(first[2].log, first[2].coordinates)})
    assert [message.id for message in mq.read("orders")] == [first[2], *other]


def test_trim_refuses_a_position_of_another_partition(mq):
    """A position under the wrong partition is an error, and nothing is removed."""
    mq.create_topic("orders", partitions=2)
    fill(mq, "orders", 1, partition=1)
    with pytest.raises(ValueError, match="partition 0 needs one of its own positions"):
        mq.trim("orders", {0: mq.watermarks("orders")[1].high})
    assert mq.watermarks("orders")[1].count == 1


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "a b", "x" * 250, "orders-partition-1"])
def test_new_names_are_checked_before_any_io(name):
    """An invalid name reaches no driver."""
    with narrowed() as (mq, asked):
        with pytest.raises(mqplug.InvalidName):
            mq.create_topic(name)
        assert asked == []


def test_a_name_may_be_too_long_for_a_backend():
    """A name that is too long for the backend reaches no driver, and the error names the limit."""
    with narrowed(topic_name_max=20) as (mq, asked):
        with pytest.raises(mqplug.InvalidName, match="Use 1 to 20 of"):
            mq.create_topic("x" * 21)
        assert asked == []


# questions -------------------------------------------------------------------------------------------------


def test_watermarks_of_many_topics_are_those_of_each(mq):
    """Topics have the same watermarks whether they are queried together or one by one."""
    mq.create_topic("orders", partitions=2)
    mq.create_topic("audit")
    fill(mq, "orders", 3, partition=1)
    assert mq.watermarks(["orders", "audit"]) == {name: mq.watermarks(name) for name in ("orders", "audit")}
    assert mq.watermarks([]) == {}


def test_many_topics_are_described_at_once():
    """A driver that can describe many topics in one round trip is called once."""
    with narrowed() as (mq, asked):
        for name in "abc":
            mq.create_topic(name)
        asked.clear()
        assert list(mq.watermarks(["a", "b", "c", "a"])) == ["a", "b", "c"]
        assert asked == [DescribeTopics(("a", "b", "c"))]


def test_drivers_need_not_describe_many_at_once():
    """A driver that cannot is called for one topic after the other."""
    with narrowed(DescribeTopics) as (mq, asked):
        for name in "ab":
            mq.create_topic(name)
        asked.clear()
        assert list(mq.watermarks(["a", "b"])) == ["a", "b"]
        assert asked[1:] == [DescribeTopic("a"), DescribeTopic("b")]


def test_watermarks_of_ten_thousand_partitions_are_cheap():
    """The watermarks of 10,000 partitions are one driver call, without a call for each partition."""
    recorder = Recorder()
    with mqplug.connect("memory", extensions=[recorder]) as mq:
        mq.create_topic("wide", partitions=10_000)
        before = len(list(recorder.calls()))
        assert len(mq.watermarks("wide")) == 10_000
        assert len(list(recorder.calls())) - before <= 2


def test_lag_counts_down_to_zero(mq):
    """The lag is the number of messages that the group has left in each partition, and 0 only at the end."""
    mq.create_topic("orders", partitions=2)
    fill(mq, "orders", 3)
    with mq.consumer("orders", group="billing") as consumer:
        assert mq.lag("orders", group="billing") == {0: 3, 1: 0}
        consumer.ack_through(consumer.receive_many(2, 5)[1])
        consumer.commit()
        assert mq.lag("orders", group="billing") == {0: 1, 1: 0}


def test_lag_of_many_topics_is_that_of_each(mq):
    """Topics have the same lag whether queried together or one by one; a topic that the group does not read raises."""
    for name, count in {"orders": 2, "audit": 1, "strange": 0}.items():
        mq.create_topic(name)
        fill(mq, name, count)
    mq.reset_group("billing", "orders", EARLIEST)
    mq.reset_group("billing", "audit", EARLIEST)
    assert mq.lag(["orders", "audit"], group="billing") == {"orders": {0: 2}, "audit": {0: 1}}
    with pytest.raises(mqplug.GroupNotFound, match="no position on 'strange'"):
        mq.lag(["orders", "strange"], group="billing")


def test_a_question_moves_nothing(mq):
    """Watermarks, bounds, lag and positions do not move a group."""
    mq.create_topic("orders")
    fill(mq, "orders", 2)
    mq.reset_group("billing", "orders", EARLIEST)
    before = mq.positions("orders", group="billing")
    for ask in (mq.watermarks, mq.bounds, mq.describe, mq.groups):
        ask("orders")
    mq.lag("orders", group="billing")
    assert mq.positions("orders", group="billing") == before


# ending ----------------------------------------------------------------------------------------------------


def test_what_opens_while_the_client_closes_is_closed(mq, monkeypatch):
    """A producer whose opening overlaps the client's close does not stay open: its opener gets Closed."""
    mq.create_topic("orders")
    made = []
    open_producer = mq._backend.open_producer

    def slow(*arguments):
        made.append(open_producer(*arguments))
        mq.close()
        monkeypatch.setattr(made[0], "close", lambda timeout: made.append("closed"))
        return made[0]

    monkeypatch.setattr(mq._backend, "open_producer", slow)
    with pytest.raises(mqplug.Closed):
        mq.producer("orders")
    assert made[1:] == ["closed"]


def test_closing_goes_on_after_an_error(mq, monkeypatch):
    """An error in one consumer's close leaves nothing else open, and is reported at the end."""
    mq.create_topic("orders")
    consumers = [mq.consumer("orders", start=EARLIEST) for _ in range(2)]
    for consumer in consumers:
        session = consumer._session
        close = session.close
        monkeypatch.setattr(session, "close", lambda timeout, close=close: (close(timeout), fail())[0])
    with pytest.raises(mqplug.ConnectError):
        mq.close()
    for consumer in consumers:
        with pytest.raises(mqplug.Closed):
            consumer.receive(0)


def fail():
    """Raise an error."""
    raise mqplug.ConnectError("gone")
