"""Groups: starts, gaps, rebalances, and members that are slow, silent or late."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from kafka_driver import fill, new_name, since_4, take
from kafka_faults import change, set_wait
from waiting import wait_until

import mqplug
from mqplug import spi

pytestmark = pytest.mark.python


def join(consumer, seconds=20):
    """Poll, and so take part in rebalances, until the consumer has partitions."""
    end = time.monotonic() + seconds
    while not consumer.assignment() and time.monotonic() < end:
        consumer.receive(timeout=0.1)
    assert consumer.assignment()


def test_a_reader_leaves_no_trace(mq, topic):
    """A consumer without a group creates no group at the broker."""
    fill(mq, topic, 3)
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        take(reader, 3)
        reader.seek(mqplug.EARLIEST)
        take(reader, 3)
    mq.bounds(topic)
    assert "mqplug-without-group" not in groups(mq)  # librdkafka wants a name; other tests have their own groups


def groups(mq):
    """Return the names of all groups."""
    from confluent_kafka.admin import AdminClient

    found = mq.unwrap(AdminClient).list_consumer_groups(request_timeout=10).result(10)
    return {each.group_id for each in found.valid}


def test_the_start_is_stored_before_open_returns(mq, topic):
    """A group opened at LATEST keeps that start even if it is closed before it receives anything."""
    group = new_name()
    fill(mq, topic, 3)
    mq.consumer(topic, group=group, start=mqplug.LATEST).close()
    sent = fill(mq, topic, 2, prefix="later")
    with mq.consumer(topic, group=group) as consumer:
        assert [m.id for m in take(consumer, 2)] == sent


def test_gaps_survive_a_close(mq, topic):
    """After a close, messages acked out of order are not delivered again; the others are."""
    group = new_name()
    fill(mq, topic, 10)
    with mq.consumer(topic, group=group) as consumer:
        for index, message in enumerate(take(consumer, 10)):
            if index % 3:
                consumer.ack(message)
    with mq.consumer(topic, group=group) as consumer:
        assert [m.value for m in take(consumer, 4)] == [b"m0", b"m3", b"m6", b"m9"]
        assert consumer.receive(timeout=0.5) is None


def test_members_share_and_hand_over(mq):
    """A second member gets its share of partitions, and all when the first leaves; no acked message is repeated."""
    name, group = new_name(), new_name()
    mq.create_topic(name, partitions=4)
    with mq.producer(name) as out:
        out.send_many([mqplug.Record(b"%d" % number, partition=number % 4) for number in range(40)])
    seen: list[bytes | None] = []
    first = mq.consumer(name, group=group)
    with mq.consumer(name, group=group) as second:
        end = time.monotonic() + 30
        while (len(seen) < 40 or len(second.assignment()) != 2) and time.monotonic() < end:
            for consumer in (first, second):
                if message := consumer.receive(timeout=0.05):
                    seen.append(message.value)
                    consumer.ack(message)
        assert len(second.assignment()) == 2
        first.close()
        while len(second.assignment()) < 4 and time.monotonic() < end:
            assert second.receive(timeout=0.1) is None
        assert len(second.assignment()) == 4
    assert sorted(seen) == sorted(b"%d" % number for number in range(40))


def test_a_late_member_of_a_new_topic_begins_at_its_start(mq):
    """A member that joins a live group for a topic the group never read begins at its own start, which is stored."""
    old, new, group = new_name(), new_name(), new_name()
    mq.create_topic(old)
    mq.create_topic(new)
    fill(mq, new, 3)
    with mq.consumer(old, group=group) as first, mq.consumer(new, group=group, start=mqplug.LATEST) as second:
        end = time.monotonic() + 30
        while not second.assignment() and time.monotonic() < end:
            first.receive(timeout=0.05)
            second.receive(timeout=0.05)
        sent = fill(mq, new, 1, prefix="later")
        assert [m.id for m in take(second, 1)] == sent
    assert mq.lag(new, group=group) == {0: 1}


def test_a_callback_that_fails_is_raised_and_loses_nothing(mq, topic):
    """An error in the user's on_assigned is raised by receive, and all messages are delivered afterwards."""
    sent = fill(mq, topic, 5)

    def fail(logs):
        raise RuntimeError("a defect of the user's")

    errors, received = [], []
    with mq.consumer(topic, group=new_name(), on_assigned=fail) as consumer:
        end = time.monotonic() + 30
        while (len(received) < 5 or not errors) and time.monotonic() < end:
            try:
                received += consumer.receive_many(10, timeout=0.2).ids
            except RuntimeError as error:
                errors.append(str(error))
    assert received == sent
    assert errors == ["a defect of the user's"]


def test_a_caller_that_is_away_stays_a_member(kafka_server):
    """A handler slower than the poll limit keeps its partition, and then receives the next messages in order."""
    name = new_name()
    native = {"max.poll.interval.ms": "3000"}
    with mqplug.connect("kafka", servers=[kafka_server.bootstrap], session_timeout=3.0, librdkafka=native) as mq:
        mq.create_topic(name)
        fill(mq, name, 5)
        lost: list[object] = []
        with mq.consumer(name, group=new_name(), on_revoked=lost.append) as consumer:
            first = take(consumer, 2)
            threading.Event().wait(5)
            rest = take(consumer, 3)
            assert [m.value for m in first + rest] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
            assert lost == []


@pytest.mark.disturbs
def test_a_commit_is_bounded_when_the_broker_is_silent(kafka_server, mq, topic):
    """A commit to a silent broker raises Timeout in time, and succeeds when repeated once the broker answers."""
    fill(mq, topic, 3)
    with mq.consumer(topic, group=new_name()) as consumer:
        for message in take(consumer, 2):
            consumer.ack(message)
        kafka_server.pause()
        try:
            began = time.monotonic()
            with pytest.raises(mqplug.Timeout):
                consumer.commit(timeout=1)
            assert time.monotonic() - began < 20  # less than the default of 30 seconds
        finally:
            kafka_server.unpause()
        consumer.commit()
        assert consumer.committed()[0] is not None


def test_a_group_with_members_cannot_be_moved(mq, topic):
    """Moving a group with members raises ConsumerBusy; without members it moves."""
    from mqplug_kafka import mqplug_move_group

    group = new_name()
    fill(mq, topic, 5)
    log = mq.partitions(topic)[0]
    target = {log: spi.GroupPosition(mqplug.Position(log, (3,)))}
    with mq.consumer(topic, group=group) as consumer:
        join(consumer)
        with pytest.raises(mqplug.ConsumerBusy):
            mqplug_move_group(mq._connection, group, target, 10)
    mqplug_move_group(mq._connection, group, target, 10)
    assert mq.lag(topic, group=group) == {0: 2}


def test_added_partitions_are_read_from_their_beginning(kafka_server):
    """A group reads partitions that are added to its topic from their first message, even if it began at LATEST."""
    from confluent_kafka.admin import AdminClient, NewPartitions

    name = new_name()
    native = {"topic.metadata.refresh.interval.ms": "500"}
    with mqplug.connect("kafka", servers=[kafka_server.bootstrap], librdkafka=native) as mq:
        mq.create_topic(name)
        with mq.consumer(name, group=new_name(), start=mqplug.LATEST) as consumer:
            join(consumer)
            mq.unwrap(AdminClient).create_partitions([NewPartitions(name, 2)])[name].result(10)
            end = time.monotonic() + 30
            while len(mq.partitions(name)) < 2 and time.monotonic() < end:
                time.sleep(0.05)
            with mq.producer(name) as out:
                sent = out.send(b"x", partition=1)
            assert [m.id for m in take(consumer, 1)] == [sent]


def test_a_member_that_leaves_while_it_joins_is_let_go_at_once(kafka_server):
    """A member closed while it joins leaves at once, so the others do not wait for its session to expire."""
    name, group = new_name(), new_name()
    with mqplug.connect(kafka_server.url, session_timeout=60) as mq:
        mq.create_topic(name, partitions=2)
        with mq.consumer(name, group=group) as staying:
            join(staying)
            leaving = mq.consumer(name, group=group)
            leaving.receive(timeout=0.3)
            leaving.close()
            end = time.monotonic() + 40
            while len(staying.assignment()) < 2 and time.monotonic() < end:
                staying.receive(timeout=0.1)
            assert len(staying.assignment()) == 2


def test_a_member_whose_group_does_not_answer_joins_again_anew(mq, topic, monkeypatch):
    """A member that lost its partitions and gets none, although brokers answer, joins with a new librdkafka client."""
    set_wait(monkeypatch, "rejoin", 1.0)
    fill(mq, topic, 3)
    with mq.consumer(topic, group=new_name()) as consumer:
        for message in take(consumer, 2):
            consumer.ack(message)
        consumer.commit()
        member = consumer._session.driver_session.driver
        stuck = member._fetcher.source.consumer
        stuck.unsubscribe()  # for the group, the member has left for good
        with consumer._session.driver_session.entering(spi.Deadline(10)):
            member._on_lost(stuck, [TopicPartition(topic, 0)])
        assert [message.value for message in take(consumer, 1)] == [b"m2"]
        assert member._fetcher.source.consumer is not stuck


def test_a_member_does_not_join_anew_while_the_brokers_have_just_come_back(mq, topic):
    """After a long outage a member keeps its librdkafka client, which gets time to find the group again."""
    fill(mq, topic, 1)
    with mq.consumer(topic, group=new_name()) as consumer:
        take(consumer, 1)
        member = consumer._session.driver_session.driver
        native, watch = member._fetcher.source.consumer, member._fetcher.topics
        unanswered = Future()
        unanswered.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        watch._under_way = {topic: unanswered}
        member._lost_at = time.monotonic() - 60
        wait_until(lambda: consumer.receive_many(1, timeout=0.1) or unanswered not in watch._under_way.values())
        wait_until(lambda: consumer.receive_many(1, timeout=0.1) or watch.answered_for(0.0) >= 0)
        consumer.receive_many(1, timeout=0.1)
        assert member._fetcher.source.consumer is native


def test_a_member_whose_positions_do_not_come_receives_in_time(mq, topic, monkeypatch):
    """While the group's positions are unanswered, receive ends at its timeout; messages arrive after the answer."""
    fill(mq, topic, 1)
    silence = threading.Event()

    def late(answer, *how):
        silence.wait(30)
        return answer(*how)

    change(monkeypatch, "positions of a member", late)
    with mq.consumer(topic, group=new_name()) as consumer:
        try:
            end = time.monotonic() + 3
            while time.monotonic() < end:
                began = time.monotonic()
                assert consumer.receive(timeout=0.2) is None
                assert time.monotonic() - began < 1.2
        finally:
            silence.set()
        take(consumer, 1)


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=since_4)])
def test_a_member_without_positions_leaves_at_its_close(kafka_server, topic, monkeypatch, protocol):
    """A member closed before it knows its positions leaves at once: another reads before its session would expire."""
    silence = threading.Event()

    def late(answer, *how):
        silence.wait(30)
        return answer(*how)

    settings = {"servers": [kafka_server.bootstrap], "group_protocol": protocol}
    if protocol == "classic":
        settings["session_timeout"] = 60
    with mqplug.connect("kafka", **settings) as mq:
        group = new_name()
        fill(mq, topic, 1)
        change(monkeypatch, "positions of a member", late)
        with mq.consumer(topic, group=group) as first:
            member = first._session.driver_session.driver
            wait_until(lambda: first.receive(timeout=0.1) or member._unplaced)
        monkeypatch.undo()
        silence.set()
        began = time.monotonic()
        with mq.consumer(topic, group=group) as second:
            take(second, 1)
        assert time.monotonic() - began < 20
