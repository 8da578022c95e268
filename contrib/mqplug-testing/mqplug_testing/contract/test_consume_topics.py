"""CON: topics chosen by a pattern, and topics deleted or recreated while another one keeps the consumer busy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread

from mqplug import (
    EARLIEST,
    LATEST,
    CloseIncomplete,
    Consumer,
    Error,
    Message,
    MessageId,
    PositionLost,
    TopicNotFound,
    matching,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

JOIN_S = 10.0  # until a new topic is read


@case("CON-21", needs=("topic_patterns",), timeout=120)
def test_new_topics_join(bench: Bench) -> None:
    """A pattern's topics are read, those that are created later from their first message, and no others."""
    stem = bench.name()
    pattern = matching(re.escape(stem) + "[.][a-z]+")
    with bench.raises(TopicNotFound):
        list(bench.client.read(pattern))
    there, later, beside = (bench.owned(stem + end) for end in (".old", ".new", ".new.not"))
    bench.admin.create_topic(there)
    before = bench.fill(there, 2)
    reader = bench.client.consumer(pattern, start=EARLIEST)
    fresh = bench.client.consumer(pattern, start=LATEST)
    bench.delivers(reader, before)
    other = bench.connect(bench.harness.admin)
    for topic in (beside, later):
        other.create_topic(topic)
    bench.fill(beside, 2)
    ids = bench.fill(later, 3)
    for consumer in (reader, fresh):
        found = _arriving(bench, consumer, 3)
        bench.equal([message.id for message in found], ids, "a new topic is read from its first message")
    bench.equal({message.id for message in bench.client.read(pattern)}, {*before, *ids}, "read takes existing topics")
    bench.delivers(reader, bench.fill(there, 1), "the others continue")


@case("CON-22", needs=("topic_patterns", "delete_topic", "ordered", "durable_groups"), timeout=180)
def test_topics_come_and_go(bench: Bench) -> None:
    """A topic that joins or leaves a pattern does not disturb a member, and its group has a position in a new one."""
    stem, group = bench.name(), bench.name()
    pattern = matching(re.escape(stem) + ".*")
    there, later = (bench.owned(stem + end) for end in (".old", ".new"))
    bench.admin.create_topic(there)
    member = bench.client.consumer(pattern, group=group)
    ids = bench.fill(there, 3)
    in_hand = bench.delivers(member, ids)
    bench.admin.create_topic(later)
    new = bench.fill(later, 2)
    found = _arriving(bench, member, 2)
    bench.equal([message.id for message in found], new, "unacked messages are not repeated")
    for message in (*in_hand, found[0]):
        member.ack(message)
    member.commit()
    bench.equal(member.late_acks, 0, "acks of earlier messages count")
    bench.stands(bench.client.positions(later, group=group)[0].position, new, 1)
    member.close()
    again = bench.connect().consumer(pattern, group=group)
    bench.delivers(again, new[1:])
    bench.forget(later)
    bench.make_gone(later)
    bench.wait(lambda: not again.receive(0.1) and len(again.assignment()) == 1, "the deleted topic leaves")
    bench.delivers(again, bench.fill(there, 2), "the others continue")


def _arriving(bench: Bench, consumer: Consumer, count: int) -> list[Message]:
    """Return `count` messages, which come once the consumer has found their topic."""
    found: list[Message] = []

    def came() -> bool:
        while (message := consumer.receive(0)) is not None:
            found.append(message)
        return len(found) >= count

    bench.wait(came, f"{count} messages of a new topic came", within=JOIN_S + bench.patience)
    return found


PAUSE = 0.002  # seconds between two messages of the busy topic


@case("CON-17", needs=("delete_topic",))
def test_deleted_beside_a_busy_topic(bench: Bench) -> None:
    """The deletion of a topic is reported although another topic of the same consumer is busy."""
    (doomed, ids), busy = bench.filled(3), bench.topic()
    with _traffic(bench, busy):
        consumers = _consumers(bench, [busy, doomed], bench.name())
        for consumer in consumers:
            _take_all(bench, consumer, ids)
        bench.make_gone(doomed)
        for consumer in consumers:
            _until_gone(bench, consumer, doomed)


@case("CON-18", needs=("delete_topic",))
def test_made_again_beside_a_busy_topic(bench: Bench) -> None:
    """No message of a recreated topic is read as the old one's, however busy another is, and a group misses none."""
    (doomed, old), busy, group = bench.filled(3), bench.topic(), bench.name()
    known = bool(old[0].log.incarnation)
    with _traffic(bench, busy):
        consumers = _consumers(bench, [busy, doomed], group)
        for consumer in consumers:
            _take_all(bench, consumer, old)
        bench.make_again(doomed)
        new = bench.fill(doomed, 8)
        for consumer in consumers:
            got = _until_gone(bench, consumer, doomed, () if known else new)
            bench.that(
                not got or (got == new and not known), f"{got} was read of {new}, which belongs to another topic"
            )
            with suppress(CloseIncomplete):  # acks of the old topic cannot be stored
                consumer.close(10 * bench.scale)
    bench.delivers(bench.reader(doomed), new)
    if len(consumers) > 1:
        bench.delivers(bench.member(doomed, group), new, "no unread message counts as read")


def _consumers(bench: Bench, topics: list[str], group: str) -> list[Consumer]:
    """Return a reader, and a member if the backend has groups."""
    able = bench.client.capabilities
    found = [bench.client.consumer(topics, start=EARLIEST)]
    if able.durable_groups and able.ordered:
        found.append(bench.connect().consumer(topics, group=group))
    return found


@contextmanager
def _traffic(bench: Bench, topic: str) -> Iterator[None]:
    """Send to a topic without a break."""
    ended = Event()

    def send() -> None:
        with bench.connect() as client, client.producer(topic) as producer:
            while not ended.wait(PAUSE):
                producer.send(b"busy")

    thread = Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(bench.patience)


def _take_all(bench: Bench, consumer: Consumer, ids: list[MessageId]) -> None:
    """Receive these messages; a member acks them."""
    bench.equal(_until_gone(bench, consumer, ids[0].log.topic, ids), ids)
    for each in ids if consumer.group is not None else ():
        consumer.ack(each)


def _until_gone(bench: Bench, consumer: Consumer, topic: str, enough: Sequence[MessageId] = ()) -> list[MessageId]:
    """Receive until the topic is reported gone, or enough of its messages came, and return their ids."""
    got: list[MessageId] = []
    ended = partial(_receive, consumer, topic, got)
    bench.wait(lambda: ended() or got[-1:] == [*enough][-1:] != [], f"{consumer!r} reports that the topic is gone")
    return got


def _receive(consumer: Consumer, topic: str, got: list[MessageId]) -> bool:
    """Receive once, and note the messages of a topic. Return whether it is reported to be gone."""
    try:
        batch = consumer.receive_many(100, 1)
    except (TopicNotFound, PositionLost) as error:  # the latter where a log has no incarnation
        error_text = error.log.topic if isinstance(error, PositionLost) and error.log else error.topic
        assert error_text == topic, f"{error!r} names the topic that is gone"
        return True
    except Error as error:
        if not error.retryable:
            raise
        return False
    got += [message.id for message in batch if message.topic == topic]
    return False
