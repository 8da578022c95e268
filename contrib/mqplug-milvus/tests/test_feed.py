"""A collection's changes, from a group."""

from __future__ import annotations

import time

import pytest
from recordings import answers, plain, replay

import mqplug
import mqplug_milvus
from mqplug_milvus import CollectionCreated, CollectionDropped, Delete, Insert, Table, TimeTick

GROUP = "replica"


@pytest.fixture
def mq():
    """A client of the memory backend, on which the recorded messages are."""
    with mqplug.connect("memory") as client:
        replay(client, "kafka")
        yield client


def feed_of(mq, collection=None):
    """Open the feed of a collection, with ticks."""
    return mqplug_milvus.events(mq, collection, group=GROUP, ticks=True)


def taken(mq, feed):
    """Return the events up to the last tick of each topic, without ticks."""
    last = {each.id for topic in mq.topics() for each in list(mqplug_milvus.read_events(mq, topic))[-1:]}
    last = {each for each in last if "dml" in each.log.topic}
    found, end = [], time.monotonic() + 30
    while last:
        assert time.monotonic() < end
        for event in feed.take(timeout=1):
            last.discard(event.id)
            if not isinstance(event, TimeTick):
                found.append(event)
    return found


def test_only_the_collection(mq):
    """A feed yields the events of its collection, and no others."""
    with feed_of(mq, "things") as feed:
        found = taken(mq, feed)
    assert {type(each) for each in found} == {CollectionCreated, Insert, Delete}
    assert len({each.collection_id for each in found}) == 1


def test_a_dropped_collection(mq):
    """The drop of a collection belongs to its feed, although Milvus tells only its number."""
    with feed_of(mq, "gone") as feed:
        assert isinstance(taken(mq, feed)[-1], CollectionDropped)


def test_all_collections(mq):
    """Without a collection a feed yields all events, and knows up to which time it is complete."""
    with feed_of(mq) as feed:
        assert feed.complete_to() is None
        found = taken(mq, feed)
        assert feed.complete_to() > found[0].at
    assert {"things", "words", "gone"} <= {getattr(each, "collection", None) for each in found}


def test_ticks_are_left_out(mq):
    """A feed yields no ticks unless they are asked for."""
    with mqplug_milvus.events(mq, group=GROUP) as feed:
        assert not any(isinstance(event, TimeTick) for event in feed.take(timeout=1))


@pytest.mark.parametrize("after", range(0, 14, 2))
def test_it_continues_with_what_was_not_done(mq, after):
    """A feed that is left in the midst of an event gets that event again, and none is skipped."""
    table = Table("pk")
    with feed_of(mq, "things") as feed:
        for number, event in enumerate(feed.take(timeout=1)):
            if number == after:
                break  # as if the program had died before it was done
            table.apply(event)
    with feed_of(mq, "things") as again:
        for event in taken(mq, again):
            table.apply(event)
    assert plain(table.rows) == answers("kafka", "things")


def test_nothing_comes_twice(mq):
    """A feed that has done all its events gets none of them again, but those that came since."""
    with feed_of(mq, "things") as feed:
        assert taken(mq, feed)
    topic = "by-dev-rootcoord-dml_0"
    stored = [message.value for message in mq.read(topic)]
    with mq.producer(topic) as out:
        out.send_many([stored[0], stored[-1]])  # the collection's creation, and a tick
    with feed_of(mq, "things") as feed:
        found = []
        while not found:
            found = [each for each in feed.take(timeout=30) if not isinstance(each, TimeTick)]
    assert [type(each) for each in found] == [CollectionCreated]
