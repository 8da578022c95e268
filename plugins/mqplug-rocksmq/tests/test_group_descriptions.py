"""Descriptions of groups: members of all processes, with names that identify their processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from owner_takeover import killed, owned_elsewhere, owns
from rocksmq_stores import eventually, line, python

import mqplug
from mqplug import EARLIEST, ConsumerBusy, GroupDescription, GroupMember, GroupNotFound

MEMBER = """
mq = mqplug.connect("rocksmq", path=str(path))
consumer = mq.consumer("orders", group="g", mode=sys.argv[2])
consumer.receive(0)
print("member", flush=True)
while True:
    consumer.receive(0.1)
"""


@pytest.fixture
def mq(path: Path, owner: subprocess.Popen[str]) -> Iterator[mqplug.Client]:
    """A client of a store that another process owns, with the topic "orders"."""
    with mqplug.connect("rocksmq", path=str(path)) as client:
        client.create_topic("orders", partitions=2)
        yield client


def members(mq: mqplug.Client) -> tuple[GroupMember, ...]:
    """The members of the group."""
    return mq.describe_group("g").members or ()


def process_of(member: GroupMember) -> int:
    """Return the process that a member's name identifies."""
    return int(member.name.split("-")[1])


@pytest.mark.parametrize("mode", ["ordered", "shared"])
def test_members_of_all_processes_are_described(path: Path, mq: mqplug.Client, mode: mqplug.spi.Mode) -> None:
    """Members in another process and in this one are distinguished by process ids, and have their partitions."""
    logs = mq.partitions("orders")
    with python(MEMBER, path, mode) as other, mq.consumer("orders", group="g", mode=mode) as mine:
        assert line(other) == "member"
        share = len(logs) if mode == "shared" else 1
        eventually(lambda: not mine.receive(0.01) and [len(each.logs or ()) for each in members(mq)] == [share] * 2)
        described = mq.describe_group("g")
        assert described.topics == ("orders",)
        assert {process_of(each) for each in members(mq)} == {other.pid, os.getpid()}
        assert {each.host for each in members(mq)} == {os.uname().nodename}
        assert {log for each in members(mq) for log in each.logs or ()} == set(logs)
        with pytest.raises(ConsumerBusy, match=rf"members: .*pid-{other.pid}-"):
            mq.reset_group("g", "orders", EARLIEST)
        other.send_signal(signal.SIGKILL)
        eventually(lambda: {process_of(each) for each in members(mq)} == {os.getpid()})
    assert mq.describe_group("g") == GroupDescription("g", ("orders",), ())


def test_members_are_named_after_a_takeover(path: Path) -> None:
    """After the owner is killed, its successor describes the members that moved over, and other groups' positions."""
    with owned_elsewhere(path) as (owner, mq), mq.consumer("orders", group="g") as mine:
        mq.reset_group("idle", "orders", EARLIEST)
        eventually(lambda: not mine.receive(0.01) and members(mq)[0].logs)
        killed(owner)
        eventually(lambda: owns(mq) and not mine.receive(0.01) and len(members(mq)) == 1 and members(mq)[0].logs)
        assert [process_of(each) for each in members(mq)] == [os.getpid()]
        assert mq.describe_group("idle") == GroupDescription("idle", ("orders",), ())


def test_an_unknown_group_is_not_found(mq: mqplug.Client) -> None:
    """A group that only had a member on a deleted topic is not found either."""
    with pytest.raises(GroupNotFound, match="no position and no members"):
        mq.describe_group("g")
    mq.reset_group("g", "orders", EARLIEST)
    mq.delete_topic("orders")
    with pytest.raises(GroupNotFound):
        mq.describe_group("g")
