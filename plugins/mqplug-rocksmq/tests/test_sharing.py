"""The modes shared and key_shared: an embedded job queue, at the driver interface and through mqplug."""

from __future__ import annotations

from collections import Counter
from time import monotonic

import pytest
from rocksmq_stores import Member, eventually
from shared_members import GROUP, Sharer, Waiter, jobs, stored
from store_seam import cache_pages

import mqplug
from mqplug import ConsumerBusy, Retry
from mqplug.spi import Mode

TOPICS = {"jobs": 1}


def test_members_split_one_partition(mq: mqplug.Client) -> None:
    """Each message goes to one member, as its first attempt, and no member gets more than it asked for."""
    jobs(mq, 6)
    one, other = Sharer(mq), Sharer(mq)
    assert [one.take(2), other.take(3), one.take(9)] == [[(0, 1), (1, 1)], [(2, 1), (3, 1), (4, 1)], [(5, 1)]]
    assert other.take(9) == []
    assert one.held.keys() == other.held.keys() == set(mq.partitions("jobs"))


def test_messages_are_whole(mq: mqplug.Client) -> None:
    """A redelivered message, alone and from the middle of a page, has all of its content."""
    jobs(mq, 3, lambda number: b"key %d" % number, headers=[("name", b"value"), ("none", None)], timestamp=1_000)
    first, again = Sharer(mq), Sharer(mq)
    first.take(3)
    first.settle(0, 2, back={1: 0.0})
    [batch] = again.driver.poll(9, 0)
    [message] = batch
    assert (message.value, message.key, message.attempt) == (b"1", b"key 1", 2)
    assert message.headers == (("name", b"value"), ("none", None))
    assert batch.timestamps == batch.log_times == [1_000]
    assert batch.next_position.coordinates == (2,)


def test_pages_that_were_put_away_are_read_again(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little of a log is kept in memory, redelivered messages are the sent ones."""
    cache_pages(monkeypatch, 2_000)
    for _ in range(20):
        jobs(mq, 10)
    member = Sharer(mq)
    taken = [at for at, _ in member.take(200)]
    assert taken == list(range(200))
    member.settle(back=dict.fromkeys(taken[::3], 0.0))
    assert member.values(100) == [b"%d" % (at % 10) for at in taken[::3]]


def test_groups_know_nothing_of_each_other(mq: mqplug.Client) -> None:
    """Each group gets every message, in its own mode, and has the position of its own acks."""
    jobs(mq, 3)
    one, other, ordered = Sharer(mq, group="a"), Sharer(mq, "key_shared", "b"), Member(mq, "jobs", "c")
    assert one.take(9) == other.take(9) == [(0, 1), (1, 1), (2, 1)]
    eventually(ordered.poll)
    one.settle(0, 1)
    other.settle(2)
    assert stored(mq, "a") == (2, [])
    assert stored(mq, "b") == (0, [(2, 2)])


MODES: list[Mode] = ["ordered", "exclusive", "shared", "key_shared"]


@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("second", MODES)
def test_modes_do_not_mix(mq: mqplug.Client, first: Mode, second: Mode) -> None:
    """A member with another mode than the present ones is ``ConsumerBusy`` until they are gone."""
    there = mq.consumer("jobs", group=GROUP, mode=first)
    if first == second != "exclusive":
        mq.consumer("jobs", group=GROUP, mode=second).close()
    else:
        with pytest.raises(ConsumerBusy):
            mq.consumer("jobs", group=GROUP, mode=second)
    there.close()
    mq.consumer("jobs", group=GROUP, mode=second).close()


def test_modes_follow_each_other(mq: mqplug.Client) -> None:
    """A group whose members are gone continues in any mode, with every single ack."""
    jobs(mq, 6)
    shared = Sharer(mq)
    shared.take(9)
    shared.settle(0, 3)
    shared.close()
    with mq.consumer("jobs", group=GROUP) as ordered:
        got = [ordered.receive(5) for _ in range(4)]
        assert [message and message.value for message in got] == [b"1", b"2", b"4", b"5"]
        ordered.ack(got[2])  # type: ignore[arg-type]
    assert Sharer(mq, "key_shared").take(9) == [(1, 2), (2, 2), (5, 2)]


# returned messages and absent members --------------------------------------------------------------------------


def test_what_is_given_back_goes_to_anybody(mq: mqplug.Client) -> None:
    """A returned message comes before new ones, as another attempt; its former member's ack does nothing."""
    jobs(mq, 3)
    one, other = Sharer(mq), Sharer(mq)
    one.take(2)
    one.settle(back={0: 0.0})
    assert other.take(2) == [(0, 2), (2, 1)]
    one.settle(0)
    assert stored(mq) == (0, [])


def test_a_member_that_leaves_gives_back_what_it_had(mq: mqplug.Client) -> None:
    """When a member leaves, a waiting one is woken and gets its messages."""
    jobs(mq, 2)
    one, other = Sharer(mq), Sharer(mq)
    one.take(2)
    with Waiter(other) as waiter:
        one.settle(0)
        one.close()
    assert waiter.got == [(1, 2)]
    assert waiter.waited < waiter.seconds


def test_a_delay_ends_a_wait(mq: mqplug.Client) -> None:
    """A waiting member gets a delayed message when it is due, and not before."""
    jobs(mq, 1)
    one, other = Sharer(mq), Sharer(mq)
    one.take(1)
    with Waiter(other) as waiter:
        settled = monotonic()
        one.settle(back={0: 0.3})
    assert waiter.got == [(0, 2)]
    assert waiter.ended - settled > 0.29
    assert waiter.waited < waiter.seconds


def test_who_takes_too_long_loses_its_message(mq: mqplug.Client) -> None:
    """After ``max_processing`` a message goes to another member, and later settlements of the first one do nothing."""
    slow, other = Sharer(mq, max_processing=0.3), Sharer(mq)
    assert other.driver._max_wait(30.0) == 0.3  # slow may take something while other waits
    jobs(mq, 1)
    slow.take(1)
    with Waiter(other) as waiter:
        pass
    assert waiter.got == [(0, 2)]
    assert waiter.waited < waiter.seconds
    slow.settle(0)
    assert stored(mq) == (0, [])


def test_a_wait_costs_nothing(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member with nothing to do looks twice: before it waits, and at the timeout."""
    looks = Counter[str]()
    jobs(mq, 1)
    one, other = Sharer(mq, max_processing=60.0), Sharer(mq)
    one.take(1)
    one.settle(back={0: 60.0})
    take = other.driver._sharing.take
    monkeypatch.setattr(other.driver._sharing, "take", lambda *given: (looks.update(["take"]), take(*given))[1])
    other.take(1, 0.1)  # the earlier wake-up ends this wait
    looks.clear()
    assert other.take(1, 0.5) == []
    assert looks["take"] == 2


def test_dead_letters(mq: mqplug.Client) -> None:
    """A message that failed too often goes to the dead letters, and is acked."""
    mq.create_topic("jobs.dead")
    jobs(mq, 2)
    with mq.consumer("jobs", group=GROUP, mode="shared", retry=Retry(2, delay=0), dead_letter="jobs.dead") as member:
        for attempt in (1, 2):
            bad = member.receive(5)
            assert bad is not None
            assert (bad.value, bad.attempt) == (b"0", attempt)
            member.nack(bad, reason="no luck")
        good = member.receive(5)
        assert good is not None
        member.ack(good)
        eventually(lambda: mq.watermarks("jobs.dead")[0].count == 1)
        eventually(lambda: (member.receive(0), member.commit(), stored(mq) == (2, []))[-1])
    [letter] = mq.read("jobs.dead")
    assert dict(letter.headers)["mqplug-dead-reason"] == b"no luck"
