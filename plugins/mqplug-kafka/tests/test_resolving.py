"""Resolving starts on a broker without a consumer, and computing positions."""

from __future__ import annotations

import pytest
from kafka_driver import fill, new_name
from kafka_faults import change

import mqplug
from mqplug import EARLIEST, LATEST, Log, Position, Record, after, at_time, before, last

START_MS = 1_700_000_000_000


def test_many_topics_at_once(mq):
    """Starts resolved for many topics together equal those resolved for each topic and those of its readers."""
    topics = [new_name() for _ in range(5)]
    for topic in topics:
        mq.create_topic(topic, partitions=3)
        with mq.producer(topic) as out:
            out.send_many(
                [Record(b"x", partition=1, timestamp=START_MS + 1000 * number) for number in range(5)]
                + [Record(b"y", partition=2)]
            )
    for start in (EARLIEST, LATEST, last(2), at_time(START_MS + 1500), at_time(START_MS + 10**10)):
        together = mq.resolve(topics, start)
        assert together == {topic: mq.resolve(topic, start) for topic in topics}
        for topic in topics:
            with mq.consumer(topic, start=start) as reader:
                assert together[topic] == reader.position()
    found = mq.resolve(topics[0], at_time(START_MS + 1500))
    assert [position.coordinates[0] for position in found.values()] == [0, 2, 0]
    assert "mqplug-without-group" not in {each.name for each in mq.groups()}
    for topic in topics:
        mq.delete_topic(topic)


def test_markers_count(mq, topic):
    """Transaction markers take offsets, which ``distance`` and ``advance`` count like messages."""
    ids = []
    for number in range(3):
        with mq.transaction(new_name(), topic) as step:
            sent = [step.send(b"%d" % number) for _ in range(2)]
        ids += [each.result() for each in sent]
    assert [each.coordinates[0] for each in ids] == [0, 1, 3, 4, 6, 7]
    low, high = mq.watermarks(topic)[0].low, mq.watermarks(topic)[0].high
    assert mq.distance(low, high) == 9
    assert mq.resolve(topic, last(2)) == {0: Position(low.log, (6,))}
    end = mq.advance(low, 4)
    assert [message.id for message in mq.read(topic, until=end)] == ids[:3]
    assert mq.distance(end, high) == 5


def test_what_retention_removed(mq, topic):
    """A position before the first offset raises PositionLost, or with missing="next" resolves to the first offset."""
    with mq.producer(topic) as out:
        ids = [out.send(b"x") for _ in range(6)]
    low = Position(ids[3].log, (3,))
    mq.trim(topic, {0: low})
    with pytest.raises(mqplug.PositionLost) as caught:
        mq.resolve(topic, before(ids[1]))
    assert caught.value.low == low
    assert mq.resolve(topic, before(ids[1]), missing="next") == mq.resolve(topic, after(ids[2])) == {0: low}
    far = Position(low.log, (100,))
    assert mq.resolve(topic, far) == {0: far}


def test_messages_removed_during_a_look_up(mq, topic, monkeypatch):
    """If retention removes messages during a look-up, bounds and last(n) are those of the retained ones."""
    ids = fill(mq, topic, 5)
    removed = ids[:1]

    def removes(range_of, *given, **options):
        found = range_of(*given, **options)
        while removed:
            mq.trim(topic, {0: mq.advance(Position(ids[0].log, removed.pop().coordinates), 1)})
        return found

    change(monkeypatch, "ends of logs", removes)
    assert mq.bounds(topic)[0] == mqplug.Bounds(ids[1], ids[-1])
    removed.append(ids[1])
    assert mq.resolve(topic, last(100))[0] == Position(ids[2].log, ids[2].coordinates)


def test_limits_of_positions(mq, topic):
    """Positions stop at 64-bit offsets; those of another cluster or of a recreated topic are refused."""
    low = mq.watermarks(topic)[0].low
    end = mq.advance(low, 2**64)
    assert mq.resolve(topic, end) == {0: end}
    assert mq.advance(end, 1) == end
    elsewhere = Position(Log("kafka", "elsewhere", topic, 0, low.log.incarnation), (0,))
    for call in (mq.advance, mq.distance):
        with pytest.raises(mqplug.InvalidMessageId, match="another backend or cluster"):
            call(elsewhere, 1 if call == mq.advance else elsewhere)
    mq.delete_topic(topic)
    mq.create_topic(topic)
    with pytest.raises(mqplug.InvalidMessageId, match="created again"):
        mq.resolve(topic, low)
