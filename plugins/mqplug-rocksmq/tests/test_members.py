"""Members of groups, at the driver interface: pauses, added partitions, modes, and refusals while they are members."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksmq_stores import Member, administer, eventually

import mqplug
import mqplug_rocksmq
from mqplug import LATEST, ConsumerBusy, GroupNotFound, Log, Position, TopicNotFound
from mqplug.spi import AddPartitions, DeleteGroup, GroupInfo, GroupPosition, ListGroups, Mode

pytestmark = pytest.mark.python


@pytest.fixture
def mq(path: Path) -> Iterator[mqplug.Client]:
    """A client with the topic "orders" of two partitions."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as client:
        client.create_topic("orders", partitions=2)
        yield client


def fill(mq: mqplug.Client, partition: int, *values: bytes) -> list[mqplug.MessageId]:
    """Send values to a partition, and return their ids."""
    with mq.producer("orders") as out:
        return list(out.send_many([mqplug.Record(value, partition=partition) for value in values]))


@pytest.mark.parametrize("group", [None, "g"])
def test_a_paused_log_stands_still(mq: mqplug.Client, group: str | None) -> None:
    """While a log is paused, only the others deliver; afterwards it continues where it was."""
    zero, one = mq.partitions("orders")
    member = opened(mq, group)
    fill(mq, 0, b"a", b"b", b"c")
    eventually(lambda: member.poll(1))
    member.driver.pause([zero])
    fill(mq, 0, b"d")
    fill(mq, 1, b"x")
    eventually(lambda: member.poll() or member.got.get(one) == [b"x"])
    assert member.poll() == 0
    assert member.got[zero] == [b"a"]
    member.driver.resume([zero])
    eventually(lambda: not member.poll() and member.got[zero] == [b"a", b"b", b"c", b"d"])


def test_a_seek_leaves_a_log_paused(mq: mqplug.Client) -> None:
    """A paused log that is moved delivers nothing until it is resumed, and then from the new position."""
    zero, _ = mq.partitions("orders")
    fill(mq, 0, b"a", b"b")
    member = Member(mq, "orders", "g")
    member.driver.tend(0.05)
    member.driver.pause([zero])
    member.driver.seek({zero: Position(zero, (1,))}, 10)
    assert member.poll() == 0
    member.driver.tend(0.05)
    assert member.poll() == 0
    member.driver.resume([zero])
    eventually(member.poll)
    assert member.got == {zero: [b"b"]}


def opened(mq: mqplug.Client, group: str | None) -> Member:
    """A consumer of all partitions."""
    if group is None:
        return Member(mq, "orders", None, start={log: Position(log, (0,)) for log in mq.partitions("orders")})
    member = Member(mq, "orders", group)
    eventually(lambda: member.poll() or len(member.held) == 2)
    return member


def test_a_topic_deleted_before_the_first_receive(mq: mqplug.Client) -> None:
    """A member of two topics, one of which was deleted before it took them, gets the error at each receive."""
    mq.create_topic("gone")
    with mq.consumer(["orders", "gone"], group="g") as member:
        mq.delete_topic("gone")
        fill(mq, 0, b"a")
        for _ in range(2):
            with pytest.raises(TopicNotFound, match="gone"):
                member.receive(5)


def test_added_partitions_belong_to_live_members(mq: mqplug.Client) -> None:
    """Current members share added partitions, and read them from their beginning."""
    members = [Member(mq, "orders", "g", start=LATEST) for _ in range(2)]
    old = fill(mq, 0, b"old")
    info = administer(mq, AddPartitions("orders", 4))
    assert [log.partition for log in info.logs] == [0, 1, 2, 3]
    sent = [fill(mq, partition, b"%d" % partition)[0] for partition in (2, 3)]

    def shared() -> bool:
        for member in members:
            member.poll()
        return sorted(len(member.held) for member in members) == [2, 2]

    eventually(shared)
    eventually(lambda: shared() and sum(len(member.got) for member in members) == 3)
    received = {log: values for member in members for log, values in member.got.items()}
    assert received == {each.log: [value] for each, value in zip(old + sent, [b"old", b"2", b"3"], strict=True)}
    assert [message.id for message in mq.read("orders", partitions=[0])] == old


def test_added_partitions_have_a_place_in_every_group(mq: mqplug.Client, path: Path) -> None:
    """A group without members reads partitions that are added later from their beginning, whatever its start."""
    Member(mq, "orders", "g", start=LATEST).driver.close(10)
    administer(mq, AddPartitions("orders", 3))
    sent = fill(mq, 2, b"x")
    with mqplug.connect("rocksmq", path=str(path), sync="os") as other:
        member = Member(other, "orders", "g", start=LATEST)
        eventually(member.poll)
        member.driver.close(10)
    assert member.got == {sent[0].log: [b"x"]}


@pytest.mark.parametrize("count", [1, 2])
def test_partitions_only_grow(mq: mqplug.Client, count: int) -> None:
    """A number of partitions that is not larger is an error that changes nothing."""
    with pytest.raises(ValueError, match="already has 2 partitions"):
        administer(mq, AddPartitions("orders", count))
    assert len(mq.partitions("orders")) == 2
    with pytest.raises(mqplug.TopicNotFound):
        administer(mq, AddPartitions("never-made", 3))


PAIRS: list[tuple[Mode, Mode]] = [("exclusive", "exclusive"), ("exclusive", "ordered"), ("ordered", "exclusive")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_exclusive_is_alone(mq: mqplug.Client, first: Mode, second: Mode) -> None:
    """A second consumer is refused if one of the two is exclusive; once the first has closed, the group is free."""
    member = Member(mq, "orders", "g", first)
    with pytest.raises(ConsumerBusy, match="'g'"):
        Member(mq, "orders", "g", second)
    Member(mq, "orders", "other", "exclusive").driver.close(10)
    member.driver.close(10)
    Member(mq, "orders", "g", second).driver.close(10)


def test_groups_are_listed_with_their_members(mq: mqplug.Client) -> None:
    """Each group is listed with the number of its members, on one topic or on any."""
    mq.create_topic("other")
    here = [Member(mq, "orders", "a"), Member(mq, "orders", "a")]
    Member(mq, "other", "b").driver.close(10)
    assert administer(mq, ListGroups()) == [GroupInfo("a", 2), GroupInfo("b", 0)]
    assert administer(mq, ListGroups("other")) == [GroupInfo("b", 0)]
    here[0].driver.close(10)
    assert administer(mq, ListGroups("orders")) == [GroupInfo("a", 1)]
    with pytest.raises(mqplug.TopicNotFound):
        administer(mq, ListGroups("never-made"))


def test_groups_with_members_are_left_alone(mq: mqplug.Client) -> None:
    """A group with members is neither moved nor deleted; afterwards it is, and is no longer found."""
    log: Log = mq.partitions("orders")[0]
    place = {log: GroupPosition(Position(log, (0,)))}
    member = Member(mq, "orders", "g")
    with pytest.raises(ConsumerBusy):
        administer(mq, DeleteGroup("g"))
    with pytest.raises(ConsumerBusy):
        mqplug_rocksmq.mqplug_move_group(mq._connection, "g", place, 10)
    member.driver.close(10)
    assert mqplug_rocksmq.mqplug_move_group(mq._connection, "g", place, 10)
    administer(mq, DeleteGroup("g"))
    assert administer(mq, ListGroups()) == []
    with pytest.raises(GroupNotFound):
        administer(mq, DeleteGroup("g"))
