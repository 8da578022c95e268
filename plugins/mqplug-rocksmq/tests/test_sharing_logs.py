"""Seeks, retention, damage and deletion of logs that members share."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from rocksmq_stores import administer
from shared_members import Sharer, Waiter, jobs, stored
from store_seam import forget_pages, pretend_another_boot

import mqplug
from mqplug import Corrupt, Position, PositionLost, TopicNotFound
from mqplug.spi import AddPartitions, DeleteTopic, Settlement, Trim

TOPICS = {"jobs": 1}


def test_a_seek_frees_all_and_forgets_acks(mq: mqplug.Client) -> None:
    """After a seek no member has a message, the group is at the new position, and waiting members are woken."""
    jobs(mq, 4)
    one, other = Sharer(mq), Sharer(mq)
    assert len(one.take(2) + other.take(2)) == 4
    one.settle(0)
    with Waiter(other) as waiter:
        one.driver.seek({one.log: Position(one.log, (1,))}, 10)
    assert waiter.got == [(1, 1), (2, 1), (3, 1)]
    one.settle(1)
    assert stored(mq) == (1, [])


def test_retention_that_overtakes_members_is_told(mq: mqplug.Client) -> None:
    """After a trim, a member can still ack its message; one that no member has is ``PositionLost`` until a seek."""
    jobs(mq, 6)
    one, other = Sharer(mq), Sharer(mq)
    one.take(2)
    one.settle(0)
    administer(mq, Trim({one.log: Position(one.log, (2,))}))
    assert other.take(1) == [(2, 1)]
    one.settle(1)
    assert stored(mq) == (2, [])
    administer(mq, Trim({one.log: Position(one.log, (5,))}))
    for member in (one, other, one):
        with pytest.raises(PositionLost) as caught:
            member.take(1)
        assert caught.value.low == Position(one.log, (5,))
    one.driver.seek({one.log: Position(one.log, (5,))}, 10)
    assert other.take(9) == [(5, 1)]


def test_what_was_read_before_an_error_is_delivered(mq: mqplug.Client) -> None:
    """An error of one log does not lose messages read from another."""
    administer(mq, AddPartitions("jobs", 2))
    zero, one = mq.partitions("jobs")
    with mq.producer("jobs") as out:
        out.send_many([mqplug.Record(b"x", partition=partition) for partition in (0, 0, 1)])
    member = Sharer(mq)
    administer(mq, Trim({one: Position(one, (1,))}))
    assert member.take(9) == [(0, 1), (1, 1)]
    for _ in range(2):
        with pytest.raises(PositionLost):
            member.take(9)
    member.driver.seek({one: Position(one, (1,))}, 10)
    member.driver.settle({zero: Settlement([(0,), (1,)])}, 10)
    assert member.take(9) == []


def test_damage_leaves_no_message_behind(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreadable page is ``Corrupt`` at every poll, and no member holds its messages."""
    jobs(mq, 2)
    member = Sharer(mq)
    member.take(2)
    member.settle(back={0: 0.0, 1: 0.0})
    store = forget_pages(member.driver, member.log)
    with monkeypatch.context() as patched:
        patched.setattr(store, "read", _damaged)
        for _ in range(2):
            with pytest.raises(Corrupt):
                member.take(9)
    assert [at for at, _ in member.take(9)] == [0, 1]


def _damaged(*_: object) -> None:
    raise Corrupt("a page does not match its checksum")


def test_a_topic_that_is_deleted_ends_a_wait(mq: mqplug.Client) -> None:
    """A deleted topic ends a wait for its messages with an error, and settlements of them are refused."""
    jobs(mq, 1)
    member = Sharer(mq)
    member.take(1)
    thread = threading.Timer(0.1, lambda: administer(mq, DeleteTopic("jobs")))
    thread.start()
    with pytest.raises(TopicNotFound):
        member.take(1, 30)
    thread.join(20)
    with pytest.raises(TopicNotFound):
        member.settle(0)
    member.close()


def test_added_partitions_are_shared(mq: mqplug.Client) -> None:
    """Members notice added partitions, and share their messages from the first one."""
    one, other = Sharer(mq), Sharer(mq)
    assert one.take() == other.take() == []
    administer(mq, AddPartitions("jobs", 2))
    with mq.producer("jobs") as out:
        out.send_many([mqplug.Record(b"x", partition=1), mqplug.Record(b"y", partition=1)])
    assert [one.take(1, 10), other.take(1, 10)] == [[(0, 1)], [(1, 1)]]
    assert len(one.held) == len(other.held) == 2


def test_offsets_that_were_given_up_are_stepped_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the host died and left a gap of offsets, members continue after it."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic("jobs")
        jobs(mq, 2)
    witness = (path / "witness").read_bytes()
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        during = (path / "witness").read_bytes()
    assert witness != during
    (path / "witness").write_bytes(during)
    pretend_another_boot(monkeypatch)
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        jobs(mq, 2)
        member = Sharer(mq)
        taken = [at for at, _ in member.take(9)]
        assert taken[:2] == [0, 1]
        assert taken[2] > 2
        member.settle(*taken)
        assert stored(mq)[0] == taken[3] + 1
