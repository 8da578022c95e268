"""The order of events between time ticks."""

from __future__ import annotations

import pytest

from mqplug_milvus import CollectionDropped, Delete, Insert, TickOrder, TickOverdue, TimeTick


def insert(time, shard="s", **more):
    """Return an insert of one row."""
    return Insert(
        time=time, shard=shard, collection="c", collection_id=1, times=[time], row_ids=[1], columns=(), **more
    )


def delete(time, shard="s"):
    """Return a delete of one key."""
    return Delete(time=time, shard=shard, collection="c", collection_id=1, keys=[1], times=[time])


def test_events_wait_for_their_tick():
    """An event is returned with the first tick that is not earlier, and not before."""
    order = TickOrder("t")
    assert list(order.add(insert(5))) == []
    assert list(order.add(TimeTick(time=4))) == [TimeTick(time=4)]
    assert order.waiting == 1
    assert list(order.add(TimeTick(time=5))) == [insert(5), TimeTick(time=5)]
    assert (order.waiting, order.complete_to) == (0, 5)


def test_arrival_does_not_matter():
    """Events come in the order of time stamps, whatever their order in the topic."""
    order = TickOrder("t")
    for time in (7, 3, 9, 5):
        list(order.add(insert(time)))
    assert [each.time for each in order.add(TimeTick(time=8))] == [3, 5, 7, 8]
    assert [each.time for each in order.add(TimeTick(time=9))] == [9, 9]


def test_the_halves_of_an_upsert():
    """The delete of an upsert comes first, even if its insert stands before it, and only its own shard is marked."""
    order = TickOrder("t")
    list(order.add(insert(5)))
    list(order.add(insert(5, shard="other")))
    list(order.add(delete(5)))
    first, *inserts, _ = order.add(TimeTick(time=6))
    assert first == delete(5)
    assert {each.shard: each.is_upsert for each in inserts} == {"s": True, "other": False}


def test_equal_times_keep_their_order():
    """Events of one time stamp that are no upsert keep the order of their arrival."""
    order = TickOrder("t")
    drop = CollectionDropped(time=5, collection="c", collection_id=1)
    list(order.add(drop))
    list(order.add(insert(5, shard="a")))
    assert next(order.add(TimeTick(time=5))) == drop


def test_a_missing_tick():
    """If more events wait than may, the error names the topic and what to look for."""
    order = TickOrder("the-topic", most=2)
    list(order.add(insert(1)))
    list(order.add(insert(2)))
    with pytest.raises(TickOverdue, match=r"3 events have waited for a time tick.*the-topic"):
        list(order.add(insert(3)))
