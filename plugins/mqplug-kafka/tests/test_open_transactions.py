"""Logs with another client's open transaction: where they end, and which calls wait for it."""

from __future__ import annotations

import asyncio
import threading
import time

import confluent_kafka
import pytest
from kafka_driver import fill, new_name, take
from waiting import wait_until

import mqplug
import mqplug.aio


class ForeignTransaction:
    """A transaction of a confluent-kafka producer, open from its creation. The test's end aborts it."""

    def __init__(self, server, topic, *values):
        options = {"bootstrap.servers": server.bootstrap, "transactional.id": new_name()}
        self._producer = confluent_kafka.Producer(options)
        self._producer.init_transactions(30)
        self._producer.begin_transaction()
        self._topic = topic
        self.is_open = True
        self.add(*values)

    def add(self, *values):
        """Store values in the transaction."""
        for value in values:
            self._producer.produce(self._topic, value)
        assert self._producer.flush(30) == 0

    def end(self, *, commit):
        """Commit or abort the transaction."""
        if self.is_open:
            self.is_open = False
            (self._producer.commit_transaction if commit else self._producer.abort_transaction)(30)


@pytest.fixture
def begin(kafka_server, topic):
    """Return a function that begins a transaction with these values in the topic."""
    begun = []

    def one(*values):
        begun.append(ForeignTransaction(kafka_server, topic, *values))
        return begun[-1]

    yield one
    for each in begun:
        each.end(commit=False)


def values_of(messages):
    """Return the values of these messages."""
    return [message.value for message in messages]


both_ends = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])


@both_ends
def test_latest_is_behind_what_was_confirmed(mq, topic, begin, commit):
    """LATEST skips what is stored before it: messages of an open transaction and those confirmed since it began."""
    transaction = begin(b"held")
    fill(mq, topic, 3, "confirmed")
    assert mq.watermarks(topic)[0].high.coordinates == (4,)
    with (
        mq.consumer(topic, start=mqplug.LATEST) as reader,
        mq.consumer(topic, start=mqplug.LATEST, group=new_name()) as member,
    ):
        assert member.receive(timeout=1) is None
        later = fill(mq, topic, 2, "later")
        transaction.add(b"held later")
        assert reader.receive(timeout=1) is None
        transaction.end(commit=commit)
        behind = fill(mq, topic, 1, "behind")
        wanted = [b"later0", b"later1", *([b"held later"] if commit else []), b"behind0"]
        for consumer in (reader, member):
            messages = take(consumer, len(wanted))
            assert values_of(messages) == wanted
            assert [messages[0].id, messages[1].id, messages[-1].id] == [*later, *behind]


@both_ends
def test_a_read_up_to_readable_waits_for_nothing(mq, topic, begin, commit):
    """A read up to the readable watermark ends at once at an open transaction, with all messages before it."""
    fill(mq, topic, 2, "before")
    transaction = begin(b"held")
    fill(mq, topic, 1, "confirmed")
    marks = mq.watermarks(topic)[0]
    assert (marks.readable.coordinates, marks.high.coordinates) == ((2,), (4,))
    assert values_of(mq.read(topic, until=marks.readable, timeout=5)) == [b"before0", b"before1"]
    transaction.end(commit=commit)
    wait_until(lambda: (marks := mq.watermarks(topic)[0]).readable == marks.high)


@both_ends
def test_a_read_waits_for_what_is_open(mq, topic, begin, commit):
    """A read up to LATEST waits while a transaction is open, and ends once the transaction has ended."""
    fill(mq, topic, 2, "before")
    transaction = begin(b"held")
    fill(mq, topic, 1, "confirmed")
    found = mq.read(topic, timeout=60)
    assert values_of([next(found), next(found)]) == [b"before0", b"before1"]
    ended = threading.Event()

    def end():
        time.sleep(1)
        ended.set()
        transaction.end(commit=commit)

    thread = threading.Thread(target=end)
    thread.start()
    first = next(found)
    assert ended.is_set()
    fill(mq, topic, 1, "after")
    assert values_of([first, *found]) == [*([b"held"] if commit else []), b"confirmed0"]
    thread.join(30)


@both_ends
def test_a_read_ends_behind_an_ended_transaction(mq, topic, begin, commit):
    """A read ends after a committed or aborted transaction whose marker is the last entry of the log."""
    transaction = begin(b"held")
    with mq.consumer(topic, start=mqplug.EARLIEST, until=mqplug.LATEST) as reader:
        assert reader.receive(timeout=1) is None
        transaction.end(commit=commit)
        assert values_of(reader) == ([b"held"] if commit else [])
        assert reader.receive(timeout=30) is None  # at once: the reader is at its end
    assert values_of(mq.read(topic)) == ([b"held"] if commit else [])


def test_a_read_gives_up_at_its_timeout(kafka_server, mq, topic, begin):
    """A read raises Timeout if the transaction stays open; the error names the position and the end."""
    fill(mq, topic, 1, "before")
    begin(b"held")
    found = mq.read(topic, timeout=5)
    assert next(found).value == b"before0"
    with pytest.raises(mqplug.Timeout, match=r"Position\(.* 1\) is before Position\(.* 2\).*transaction"):
        next(found)

    async def story():
        async with mqplug.aio.connect(kafka_server.url) as client:
            return [message.value async for message in client.read(topic, timeout=5)]

    with pytest.raises(mqplug.Timeout, match="transaction"):
        asyncio.run(story())


def test_bounds_name_committed_messages(mq, topic, begin):
    """Bounds name the last committed message, whatever open or aborted transactions the log contains."""
    transaction = begin(b"held")
    assert mq.bounds(topic, timeout=10)[0].last_id is None
    transaction.end(commit=False)
    bounds = mq.bounds(topic, timeout=10)[0]
    assert (bounds.first_id, bounds.last_id) == (None, None)
    first, last = fill(mq, topic, 2)
    begin(b"held").end(commit=False)
    transaction = begin(b"held too")
    fill(mq, topic, 1, "confirmed behind it")
    bounds = mq.bounds(topic, timeout=10)[0]
    assert (bounds.first_id, bounds.last_id) == (first, last)
    transaction.end(commit=True)
    assert mq.bounds(topic, timeout=10)[0].last_id.coordinates[0] > last.coordinates[0] + 3


def test_last_counts_committed_messages(mq, topic, begin):
    """last(n) counts committed messages; those of an open transaction come later, and last(0) is LATEST."""
    fill(mq, topic, 3)
    transaction = begin(b"held")
    fill(mq, topic, 1, "confirmed")
    with (
        mq.consumer(topic, start=mqplug.last(2)) as two,
        mq.consumer(topic, start=mqplug.last(0)) as none,
    ):
        assert values_of(take(two, 2)) == [b"m1", b"m2"]
        assert none.receive(timeout=1) is None
        transaction.end(commit=True)
        fill(mq, topic, 1, "behind")
        assert values_of(take(two, 3)) == [b"held", b"confirmed0", b"behind0"]
        assert values_of(take(none, 1)) == [b"behind0"]


def test_a_time_finds_what_is_open(mq, topic, begin):
    """at_time finds a message in an open transaction, and delivers it once the transaction is committed."""
    fill(mq, topic, 1, "before")
    time.sleep(0.01)
    moment = round(time.time() * 1000)
    time.sleep(0.01)
    transaction = begin(b"held")
    with mq.consumer(topic, start=mqplug.at_time(moment)) as reader:
        assert reader.receive(timeout=1) is None
        transaction.end(commit=True)
        assert values_of(take(reader, 1)) == [b"held"]


@both_ends
def test_the_lag_counts_what_is_open(mq, topic, begin, commit):
    """A group's lag is not 0 while a transaction is open, and is 0 once a member has passed its end."""
    fill(mq, topic, 1)
    transaction = begin(b"held")
    group = new_name()
    with mq.consumer(topic, group=group) as member:
        member.ack(take(member, 1)[0])
        member.commit()
        assert mq.lag(topic, group=group)[0] == 1
        transaction.end(commit=commit)
        if commit:
            member.ack(take(member, 1)[0])
        deadline = time.monotonic() + 30
        while mq.lag(topic, group=group)[0] and time.monotonic() < deadline:
            assert member.receive(timeout=0.1) is None
            member.commit()
    assert mq.lag(topic, group=group)[0] == 0


def test_a_position_beyond_the_committed_end_is_kept(mq, topic, begin):
    """A seek to a position after an open transaction, or after the log's end, delivers nothing before that position."""
    transaction = begin(b"held")
    fill(mq, topic, 1, "confirmed")
    log = mq.partitions(topic)[0]
    with mq.consumer(topic, start=mqplug.EARLIEST) as behind, mq.consumer(topic, start=mqplug.EARLIEST) as beyond:
        behind.seek(mqplug.Position(log, (2,)))
        beyond.seek(mqplug.Position(log, (4,)))
        assert behind.receive(timeout=1) is None
        assert beyond.receive(timeout=1) is None
        transaction.end(commit=True)  # its marker has offset 2
        sent = fill(mq, topic, 3, "later")
        assert take(behind, 1)[0].id == sent[0]
        assert take(beyond, 1)[0].id == sent[1]
