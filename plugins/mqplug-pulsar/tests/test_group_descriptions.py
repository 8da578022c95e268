"""Descriptions of groups: topics, members, hosts and partitions, as the brokers report them."""

from __future__ import annotations

import os

import pytest
from pulsar_driver import Seam

import mqplug
from mqplug import EARLIEST, GroupDescription


def test_ordered_members_are_described(mq, name):
    """A member of an ordered group is described with its process, its host and the partitions where it is active."""
    other = f"{name}-other"
    mq.create_topic(name, partitions=2)
    mq.create_topic(other)
    logs = set(mq.partitions(name))
    mq.reset_group(name, other, EARLIEST)
    with Seam(mq, name, name) as one, Seam(mq, name, name) as two, Seam(mq, name):
        one.until(lambda: two.poll() or [len(each.logs) for each in mq.describe_group(name).members] == [1, 1])
        found = mq.describe_group(name)
        with pytest.raises(mqplug.ConsumerBusy, match=rf"members: mqplug-\w+-pid-{os.getpid()}-") as caught:
            mq.reset_group(name, name, EARLIEST)
    assert found.topics == tuple(sorted([name, other]))
    assert {each.logs[0] for each in found.members} == logs
    assert {each.host for each in found.members} == {"127.0.0.1"}
    assert {each.name for each in caught.value.members} == {each.name for each in found.members}
    assert mq.describe_group(name) == GroupDescription(name, tuple(sorted([name, other])), ())


@pytest.mark.parametrize("mode", ["shared", "key_shared", "exclusive"])
def test_other_members_are_described(mq, name, mode):
    """A member in a shared mode, or of an exclusive group, is described with all partitions."""
    mq.create_topic(name, partitions=2)
    with Seam(mq, name, name, mode=mode) as member:
        member.join(2)
        (found,) = mq.describe_group(name).members
        assert found.logs == tuple(mq.partitions(name))
        assert f"-pid-{os.getpid()}-" in found.name


def test_a_topic_without_partitions_is_described(mq, name, rest):
    """A member that reads a topic without partitions is described with the topic's one log."""
    rest.ask("PUT", rest.path(name))
    with Seam(mq, name, name) as member:
        member.join(1)
        (found,) = mq.describe_group(name).members
        assert found.logs == tuple(mq.partitions(name))


def test_readers_and_the_unknown_are_no_groups(mq, name):
    """While a reader is open, describing an unknown group raises ``GroupNotFound`` with a close name as a hint."""
    mq.create_topic(name)
    mq.reset_group(name, name, EARLIEST)
    with mq.consumer(name, start=EARLIEST), pytest.raises(mqplug.GroupNotFound, match=f"Did you mean {name!r}"):
        mq.describe_group(f"{name}x")
