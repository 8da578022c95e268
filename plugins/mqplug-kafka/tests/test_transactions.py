"""Transactions by direct calls of the driver: atomicity, aborts, fencing, marks and positions."""

from __future__ import annotations

from contextlib import suppress

import pytest
from kafka_driver import Seam, administer, fill, new_name
from transaction_seam import Holder, at, values

import mqplug
import mqplug_kafka
from mqplug import spi

PARTITIONS = 12


@pytest.fixture
def name():
    """A transaction name used by one test only."""
    return new_name()


def test_records_of_many_topics_are_committed_together(mq, topic, name):
    """Records on several topics become visible and get their ids at the commit, not before."""
    other = new_name()
    mq.create_topic(other)
    with Holder(mq, name) as holder:
        assert holder.begin() is False
        sent = holder.send(topic, b"a", b"b") + holder.send_run(other, b"c", b"d")
        holder.deliver()
        assert [each.outcomes for each in sent] == [[]] * 4
        assert [mq.bounds(each)[0] for each in (topic, other)] == [mqplug.Bounds(None, None)] * 2
        holder.commit()
        assert [each.outcome for each in sent] == [(0, 0), (0, 1), (0, 0), (0, 1)]
    assert (values(mq, topic), values(mq, other)) == ([b"a", b"b"], [b"c", b"d"])


def test_an_abort_drops_everything(mq, topic, name):
    """Aborted records fail and never become visible; the next transaction succeeds."""
    with Holder(mq, name) as holder:
        holder.begin()
        sent = holder.send(topic, b"a") + holder.send_run(topic, b"b", b"c")
        holder.deliver()
        holder.driver.abort(30)
        assert all(isinstance(each.outcome, mqplug.Error) for each in sent)
        holder.driver.abort(30)
        holder.begin()
        holder.send(topic, b"d")
        holder.commit()
    assert values(mq, topic) == [b"d"]


@pytest.mark.parametrize("native", [pytest.param("off", marks=pytest.mark.night), "auto"])
def test_the_step_after_an_abort_is_committed(kafka_server, topic, name, native):
    """After an abort that drops many records in flight, which leaves a gap in their numbers, the next step commits."""
    with mqplug.connect(kafka_server.url, native=native, librdkafka={"batch.size": "20000"}) as mq:
        mq.add_partitions(topic, PARTITIONS)
        for _ in range(4):
            with suppress(ZeroDivisionError), mq.transaction(name) as step:
                send_to_all(step, topic, b"aborted")
                step.flush()
                for _ in range(300):
                    send_to_all(step, topic, b"a" * 1000)
                raise ZeroDivisionError
            with mq.transaction(name) as step:
                send_to_all(step, topic, b"b")
        assert values(mq, topic) == [b"b"] * 4 * PARTITIONS


def send_to_all(step, topic, value):
    """Send one record to each partition."""
    for number in range(PARTITIONS):
        step.send(value, topic=topic, partition=number)


def test_a_newer_holder_fences_the_older_one(kafka_server, mq, topic, name):
    """A newer holder of a name aborts the older one's open transaction and fences it forever."""
    with mqplug.connect(kafka_server.url) as newer, Holder(mq, name) as old:
        old.begin()
        sent = old.send(topic, b"old")
        old.deliver()
        with Holder(newer, name) as new:
            new.begin()
            new.send(topic, b"new")
            with pytest.raises(mqplug.Fenced):
                old.commit()
            assert isinstance(sent[0].outcome, mqplug.Fenced)
            with pytest.raises(mqplug.Fenced):
                old.begin()
            new.commit()
    assert values(mq, topic) == [b"new"]


def test_positions_are_committed_with_their_acked_ranges(mq, topic, name):
    """A commit stores a group's position and acked ranges; an abort leaves them unchanged."""
    fill(mq, topic, 10)
    group = new_name()
    (log,) = mq.partitions(topic)
    mq.reset_group(group, topic, mqplug.EARLIEST)
    with Holder(mq, name) as holder:
        holder.begin()
        holder.send(topic, b"out")
        holder.driver.commit([spi.GroupMove(group, {log: at(log, 3, (4, 5), (8, 8))})], 30)
        assert mq.positions(topic, group=group)[0] == at(log, 3, (4, 5), (8, 8))
        holder.begin()
        holder.driver.abort(30)
    assert mq.positions(topic, group=group)[0].position.coordinates == (3,)


def test_a_member_proves_that_it_holds_its_logs(mq, topic, name):
    """A commit stores a member's positions; with a proof from an earlier generation it raises NotAssigned."""
    fill(mq, topic, 4)
    group = new_name()
    (log,) = mq.partitions(topic)
    with Holder(mq, name) as holder:
        with Seam(mq, topic, group) as consumer:
            consumer.join(1)
            proof = consumer.driver.membership()
            holder.begin()
            holder.commit(spi.GroupMove(group, {log: at(log, 2)}, proof))
        holder.begin()
        sent = holder.send(topic, b"out")
        with pytest.raises(mqplug.NotAssigned):
            holder.commit(spi.GroupMove(group, {log: at(log, 4)}, proof))
        assert isinstance(sent[0].outcome, mqplug.NotAssigned)
        holder.begin()
        holder.send(topic, b"next")
        holder.commit()
    assert mq.positions(topic, group=group)[0].position.coordinates == (2,)
    assert values(mq, topic)[4:] == [b"next"]


def test_positions_that_a_transaction_is_storing_are_waited_for(mq, topic, name):
    """While a transaction is storing a group's positions, reading them waits, and a Timeout gives that reason."""
    (log,) = mq.partitions(topic)
    with Holder(mq, name) as holder:
        holder.begin()
        holder.driver._store_positions([spi.GroupMove(name, {log: at(log, 2)}, None)], spi.Deadline(30))
        with pytest.raises(mqplug.Timeout, match="a transaction that stores positions"):
            mqplug_kafka.mqplug_administer(mq._connection, spi.DescribeGroup(name, (log,)), 0.5)
        holder.commit()
        assert administer(mq, spi.DescribeGroup(name, (log,))) == {log: at(log, 2)}


def test_marks_tell_which_steps_were_committed(kafka_server, mq, topic, name):
    """Marks identify committed numbers and lower ones as repeated, per topic and name, also for another client."""
    other = new_name()
    mq.create_topic(other)
    with Holder(mq, name) as holder:
        assert holder.begin(topic, 7) is False
        holder.send(topic, b"a")
        holder.commit()
        assert holder.begin(topic, 8) is False
        holder.driver.abort(30)
    with mqplug.connect(kafka_server.url) as later, Holder(later, name) as holder:
        for number, repeated in ((6, True), (7, True), (8, False)):
            assert holder.begin(topic, number) is repeated
            holder.driver.abort(30)
        assert holder.begin(other, 0) is False
        holder.commit()
        assert holder.begin(other, 0) is True
        holder.commit()
        assert holder.begin(topic, 7) is True
        holder.commit()
    with Holder(mq, new_name()) as stranger:
        assert stranger.begin(topic, 7) is False


def test_groups_of_marks_are_no_groups(mq, topic, name):
    """Groups that keep marks are not listed, and cannot be moved, deleted or consumed with."""
    with Holder(mq, name) as holder:
        holder.begin(topic, 1)
        holder.commit()
    group = f"mqplug-transaction-{name}"
    assert group not in {each.name for each in mq.groups()} | {each.name for each in mq.groups(topic)}
    for attempt in (
        lambda: mq.delete_group(group),
        lambda: mq.reset_group(group, topic, mqplug.EARLIEST),
        lambda: mq.consumer(topic, group=group),
    ):
        with pytest.raises(mqplug.InvalidName, match="marks"):
            attempt()


def test_a_refused_record_dooms_the_transaction(mq, name):
    """A refused record fails its commit with the reason; nothing of it becomes visible, and the next step commits."""
    narrow = new_name()
    mq.create_topic(narrow, options={"max.message.bytes": "1000"})
    with Holder(mq, name) as holder:
        holder.begin()
        small = holder.send(narrow, b"small")
        holder.deliver()
        large = holder.send(narrow, b"x" * 5000)
        with pytest.raises(mqplug.MessageTooLarge):
            holder.commit()
        assert isinstance(large[0].outcome, mqplug.MessageTooLarge)
        assert isinstance(small[0].outcome, mqplug.Error)
        step(holder, narrow, b"next")
    assert values(mq, narrow) == [b"next"]


@pytest.fixture
def small(mq):
    """A topic that accepts only small batches."""
    topic = new_name()
    mq.create_topic(topic, options={"max.message.bytes": 20_000})
    return topic


SMALL_RECORDS = [b"%0128d" % number for number in range(2000)]


def test_a_step_fits_small_topics_when_it_is_repeated(mq, name, small):
    """A step whose batches are too large for a topic fails with a retryable error and succeeds when repeated."""
    records = [mqplug.Record(value, topic=small) for value in SMALL_RECORDS]
    with pytest.raises(mqplug.Error) as caught, mq.transaction(name) as first:
        first.send_many(records)
    refusals = getattr(caught.value, "results", [caught.value])  # raised for the records or by the commit
    assert {each.retryable for each in refusals if isinstance(each, mqplug.MessageTooLarge)} == {True}
    with mq.transaction(name) as again:
        sent = again.send_many(records)
    assert [each.coordinates[0] for each in sent.result()] == sorted(each.coordinates[0] for each in sent.result())
    assert values(mq, small) == SMALL_RECORDS


def test_the_first_step_of_a_name_fits_its_default_topic(mq, name, small):
    """A name whose first step has a default topic makes batches that this topic accepts."""
    with mq.transaction(name, small) as first:
        first.send_many(SMALL_RECORDS)
    assert values(mq, small) == SMALL_RECORDS


def step(holder, topic, value):
    """Send one value in a transaction of its own."""
    holder.begin()
    sent = holder.send(topic, value)
    holder.commit()
    return sent
