"""Resolving a start without a consumer; moving positions, and counting between them."""

from __future__ import annotations

import pytest

import mqplug
from mqplug import EARLIEST, LATEST, Log, MessageId, Position, after, ago, at_time, before, last
from mqplug.memory import MemoryClient

START_MS = 1_700_000_000_000


@pytest.fixture
def mq():
    """A client of a memory store."""
    with MemoryClient.fresh() as client:
        yield client


def filled(mq, topic="orders", partitions=2, count=5):
    """Return the ids of each partition of a new topic, whose messages are a second apart."""
    mq.create_topic(topic, partitions=partitions)
    with mq.producer(topic) as out:
        return [
            [out.send(b"x", partition=number, timestamp=START_MS + 1000 * index) for index in range(count)]
            for number in range(partitions)
        ]


def offsets(positions):
    """Return the first coordinate of each position."""
    return {partition: position.coordinates[0] for partition, position in positions.items()}


# resolve ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        (EARLIEST, 0),
        (LATEST, 5),
        (last(2), 3),
        (last(9), 0),
        (at_time(START_MS + 1500), 2),
        (at_time(START_MS + 9000), 5),
        (ago(seconds=0), 5),
    ],
    ids=repr,
)
def test_a_start_of_all_partitions(mq, start, wanted):
    """A start that names no partition is resolved in each, or in those that are named."""
    filled(mq)
    assert offsets(mq.resolve("orders", start)) == {0: wanted, 1: wanted}
    assert offsets(mq.resolve("orders", start, partitions=[1])) == {1: wanted}


def test_a_start_of_one_partition(mq):
    """An id or a position is resolved in its own partition only."""
    ids = filled(mq)
    low = mq.watermarks("orders")[0].low
    assert offsets(mq.resolve("orders", before(ids[1][3]))) == {1: 3}
    assert offsets(mq.resolve("orders", after(ids[1][3]), partitions=[0, 1])) == {1: 4}
    assert mq.resolve("orders", low) == {0: low}
    with pytest.raises(ValueError, match=r"of partition 1, which partitions= does not name"):
        mq.resolve("orders", before(ids[1][3]), partitions=[0])


def test_many_topics(mq):
    """Results for many topics are grouped by topic; one with none of the partitions has an empty mapping."""
    filled(mq, "wide", 3)
    ids = filled(mq, "narrow", 1)
    both = ["wide", "narrow"]
    assert {topic: offsets(found) for topic, found in mq.resolve(both, last(1)).items()} == {
        "wide": {0: 4, 1: 4, 2: 4},
        "narrow": {0: 4},
    }
    assert {topic: offsets(found) for topic, found in mq.resolve(both, LATEST, partitions=[2]).items()} == {
        "wide": {2: 5},
        "narrow": {},
    }
    assert mq.resolve(both, before(ids[0][2])) == {"wide": {}, "narrow": {0: Position(ids[0][2].log, (2,))}}
    assert mq.resolve([], LATEST) == {}


def test_what_was_removed(mq):
    """A position before low raises PositionLost with the log's low, or resolves to low with missing="next"."""
    ids = filled(mq)
    low = Position(ids[0][3].log, ids[0][3].coordinates)
    mq.trim("orders", {0: low})
    for lost in (before(ids[0][1]), after(ids[0][1]), Position(low.log, (0,))):
        with pytest.raises(mqplug.PositionLost) as caught:
            mq.resolve("orders", lost)
        assert (caught.value.low, caught.value.operation) == (low, "resolve")
        assert mq.resolve("orders", lost, missing="next") == {0: low}
    assert mq.resolve("orders", after(ids[0][2])) == {0: low}
    assert mq.resolve("orders", last(9))[0] == low


def test_beyond_the_end(mq):
    """A position beyond the end resolves to itself."""
    ids = filled(mq)
    far = Position(ids[0][0].log, (99,))
    assert mq.resolve("orders", far) == mq.resolve("orders", far, missing="next") == {0: far}


def test_of_a_deleted_topic(mq):
    """An id of a topic that was deleted and created again is refused."""
    ids = filled(mq)
    mq.delete_topic("orders")
    filled(mq)
    with pytest.raises(mqplug.InvalidMessageId, match="created again"):
        mq.resolve("orders", before(ids[0][0]))


def test_no_group_and_no_trace(mq):
    """Resolving creates no group and moves none."""
    ids = filled(mq)
    mq.reset_group("billing", "orders", before(ids[0][2]))
    stored = mq.positions("orders", group="billing")
    for start in (EARLIEST, LATEST, last(1), before(ids[0][4])):
        mq.resolve("orders", start)
    assert mq.positions("orders", group="billing") == stored
    assert [group.name for group in mq.groups()] == ["billing"]


@pytest.mark.parametrize("like", ["full", "kafka", "pulsar"])
def test_as_a_consumer_starts(like):
    """A start resolves to where a consumer with this start begins."""
    with mqplug.connect("memory", like=like) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            ids = list(out.send_many([b"%d" % number for number in range(25)]))
        for start in (EARLIEST, LATEST, last(3), last(99), before(ids[7]), after(ids[7]), after(ids[24]), ago(hours=1)):
            with mq.consumer("orders", start=start) as reader:
                assert mq.resolve("orders", start) == reader.position()


# advance and distance --------------------------------------------------------------------------------------


def test_without_gaps(mq):
    """In a log without gaps, a distance is exactly the number of messages in between."""
    ids = filled(mq)[0]
    low, high = mq.watermarks("orders")[0].low, mq.watermarks("orders")[0].high
    assert mq.advance(low, 0) == low
    assert mq.advance(low, 3) == mq.resolve("orders", before(ids[3]))[0]
    assert mq.advance(low, 5) == high
    assert [mq.distance(low, high), mq.distance(high, low), mq.distance(low, low)] == [5, 0, 0]
    assert mq.distance(mq.advance(low, 1), mq.advance(high, 10**30)) == 10**30 + 4
    found = mq.read("orders", start=mq.advance(low, 1), until=mq.advance(low, 3), partitions=[0])
    assert [message.id for message in found] == ids[1:3]


def test_with_gaps():
    """With gaps as in Kafka a distance is an upper bound, and coordinates end at the largest offset of a log."""
    with mqplug.connect("memory", like="kafka") as mq:
        ids = filled(mq)[0]
        low, high = mq.watermarks("orders")[0].low, mq.watermarks("orders")[0].high
        assert mq.distance(low, high) == 10
        for count in range(1, 8):
            further = mq.advance(low, count)
            assert further > low
            assert mq.distance(low, further) == count
            assert sum(not further.precedes(each) for each in ids) <= count
        end = mq.advance(low, 2**63)
        assert mq.resolve("orders", end) == {0: end}
        assert mq.advance(end, 1) == end


def test_where_it_is_absent():
    """A backend with ledgers cannot compute distances and raises Unsupported."""
    with mqplug.connect("memory", like="pulsar") as mq:
        filled(mq)
        marks = mq.watermarks("orders")[0]
        for call in (lambda: mq.advance(marks.low, 1), lambda: mq.distance(marks.low, marks.high)):
            with pytest.raises(mqplug.Unsupported) as caught:
                call()
            assert caught.value.capability == "advance"


def test_of_another_cluster(mq):
    """A position of another store is refused; one of a deleted topic of this store is moved without a request."""
    with MemoryClient.fresh() as other:
        filled(other)
        elsewhere = other.watermarks("orders")[0].low
    filled(mq)
    here = mq.watermarks("orders")[0].low
    for call in (lambda: mq.advance(elsewhere, 1), lambda: mq.distance(elsewhere, elsewhere)):
        with pytest.raises(mqplug.InvalidMessageId, match="another backend or cluster"):
            call()
    mq.delete_topic("orders")
    assert mq.distance(here, mq.advance(here, 7)) == 7


@pytest.mark.parametrize("partition", [0, 1])
def test_distance_of_two_logs(mq, partition):
    """Positions of two logs have no distance, as they have no order, even if their coordinates are equal."""
    filled(mq)
    here = mq.watermarks("orders")[partition].low
    old = Position(Log(here.log.backend, here.log.cluster, here.log.topic, partition, "old"), here.coordinates)
    for other in (old, mq.watermarks("orders")[1 - partition].low):
        with pytest.raises(TypeError, match="different logs"):
            mq.distance(here, other)


def test_a_fix_for_ids(mq):
    """Passing an id raises an error that says how to get a position."""
    message_id = MessageId(filled(mq)[0][0].log, (0,))
    with pytest.raises(TypeError, match=r"resolve\(topic, after\(id\)\)"):
        mq.advance(message_id, 1)
    (position,) = mq.resolve("orders", after(message_id)).values()
    assert mq.advance(position, 1).coordinates == (2,)
