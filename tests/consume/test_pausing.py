"""Pausing, and other reasons for a partition not to deliver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from waiting import wait_until

import mqplug
from mqplug import EARLIEST


@pytest.fixture
def mq() -> Iterator[mqplug.Client]:
    """A client of a store of its own, with a topic ``orders`` of two partitions of 50 messages each."""
    with mqplug.connect("memory") as client:
        client.create_topic("orders", partitions=2)
        with client.producer("orders") as out:
            out.send_many([mqplug.Record(b"%d" % number, partition=number % 2) for number in range(100)])
        yield client


def values(orders: mqplug.Consumer, count: int) -> list[tuple[int, int]]:
    """Receive this many messages, as (partition, number)."""
    got = []
    for _ in range(count):
        message = orders.receive(timeout=5)
        assert message is not None
        got.append((message.partition, int(message.value or b"")))
    return got


def test_a_paused_partition_delivers_nothing_and_goes_on_where_it_was(mq: mqplug.Client) -> None:
    """While one partition is paused the other delivers everything; resumed, it continues without a gap or a repeat."""
    with mq.consumer("orders", start=EARLIEST) as orders:
        first = values(orders, 3)
        assert {partition for partition, _ in first} == {first[0][0]}
        paused = first[0][0]
        orders.pause(paused)
        assert {partition for partition, _ in values(orders, 50)} == {1 - paused}
        assert orders.receive(timeout=0.2) is None
        assert [each.waits_for for each in orders.state() if each.log.partition == paused] == ["paused"]
        orders.resume(paused)
        rest = values(orders, 47)
    assert [number for _, number in first + rest] == list(range(paused, 100, 2))


def test_pause_without_a_name_pauses_all(mq: mqplug.Client) -> None:
    """pause() and resume() without a name apply to every held partition."""
    with mq.consumer("orders", group="g") as orders:
        values(orders, 1)
        orders.pause()
        assert orders.receive(timeout=0.2) is None
        orders.resume()
        values(orders, 99)
        assert orders.receive(timeout=0) is None


def test_a_seek_keeps_the_pause(mq: mqplug.Client) -> None:
    """A paused partition that is moved stays paused, and continues at its new place."""
    with mq.consumer("orders", start=EARLIEST, partitions=[0]) as orders:
        values(orders, 30)
        orders.pause(0)
        orders.seek(EARLIEST)
        assert orders.receive(timeout=0.2) is None
        orders.resume(0)
        assert values(orders, 1) == [(0, 0)]


def test_what_is_not_held_cannot_be_paused(mq: mqplug.Client) -> None:
    """Pausing a partition that this consumer does not hold raises NotAssigned."""
    with mq.consumer("orders", start=EARLIEST, partitions=[0]) as orders, pytest.raises(mqplug.NotAssigned):
        orders.pause(1)


def test_max_unacked_waits_for_an_ack(mq: mqplug.Client) -> None:
    """With max_unacked=1 the next message of a partition comes only after the ack, and then at once."""
    with mq.consumer("orders", group="g", max_unacked=1) as orders:
        first = [orders.receive(timeout=5), orders.receive(timeout=5)]
        assert sorted(message.partition for message in first if message) == [0, 1]
        assert orders.receive(timeout=0.2) is None
        assert {state.waits_for for state in orders.state()} == {"unacked"}
        for message in first:
            assert message is not None
            assert message.id in {state.blocked_by for state in orders.state()}
            orders.ack(message)
            following = orders.receive(timeout=5)
            assert following is not None
            assert following.partition == message.partition
            assert following.id > message.id


def test_a_waiting_receive_goes_on_at_the_ack_of_another_thread(mq: mqplug.Client) -> None:
    """A receive that waits for an ack returns at the ack of another thread, before its timeout."""
    from concurrent.futures import ThreadPoolExecutor

    with mq.consumer("orders", group="g", max_unacked=1) as orders, ThreadPoolExecutor(1) as pool:
        first = [orders.receive(timeout=5), orders.receive(timeout=5)]
        waiting = pool.submit(orders.receive, 60)
        wait_until(lambda: orders._session.driver_session.lock.busy)
        assert first[0] is not None
        orders.ack(first[0])
        assert waiting.result(timeout=10) is not None


def test_gaps_that_would_not_fit_hold_a_partition_back() -> None:
    """If the backend stores few acked ranges, a partition waits for the unacked message that causes the gaps."""
    with mqplug.connect("memory://gaps?like=kafka") as mq:
        mq.create_topic("orders")
        most = mq.capabilities.acked_ranges_max
        with mq.producer("orders") as out:
            for _ in range(20):
                out.send_many([b"x"] * most)
        with mq.consumer("orders", group="g") as orders:
            left = []
            while (message := orders.receive(timeout=0.2)) is not None:
                if len(left) * 2 <= (taken := orders.statistics().received):
                    left.append(message)
                else:
                    orders.ack(message)
            assert most < taken <= 2 * most + 1000  # the rest of a batch may still be delivered
            [state] = orders.state()
            assert (state.waits_for, state.blocked_by) == ("unacked", left[0].id)
            for message in left:
                orders.ack(message)
            assert orders.receive(timeout=5) is not None
        assert mq.lag("orders", group="g") is not None


def test_messages_acked_together_later_hold_nothing_back() -> None:
    """Without gaps any number of messages may be in hand, even if few ranges can be stored."""
    with mqplug.connect("memory://together?like=kafka") as mq:
        mq.create_topic("orders")
        most = mq.capabilities.acked_ranges_max
        with mq.producer("orders") as out:
            for _ in range(20):
                out.send_many([b"x"] * most)
        with mq.consumer("orders", group="g", until=mqplug.LATEST) as orders:
            everything = list(orders)
            assert len(everything) == 20 * most
            orders.ack_through(everything[-1])
        assert set(mq.lag("orders", group="g").values()) == {0}
