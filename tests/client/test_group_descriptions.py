"""Descriptions of groups: their topics and members, and errors that name the members in the way."""

from __future__ import annotations

import os
import pickle

import pytest
from limited_memory import narrowed

import mqplug
from mqplug import EARLIEST, GroupDescription, GroupMember
from mqplug.spi import DescribeGroupMembers, ListGroups
from mqplug_testing.faults import Faults, Rule
from mqplug_testing.recording import Recorder


@pytest.fixture
def mq():
    """A client with two topics, "orders" of two partitions."""
    with mqplug.connect("memory") as client:
        client.create_topic("orders", partitions=2)
        client.create_topic("audit")
        yield client


def held(mq, group="billing"):
    """Return the partitions of each member."""
    return [[log.partition for log in member.logs] for member in mq.describe_group(group).members]


def test_members_have_their_partitions(mq):
    """Each member is named after its process, with its partitions; members that left are gone."""
    with mq.consumer("orders", group="billing") as one:
        one.receive(0)
        (member,) = mq.describe_group("billing").members
        assert member.name.startswith(f"pid-{os.getpid()}-")
        assert held(mq) == [[0, 1]]
        with mq.consumer("orders", group="billing") as other:
            for _ in range(3):
                one.receive(0)
                other.receive(0)
            assert sorted(held(mq)) == [[0], [1]]
            names = {each.name for each in mq.describe_group("billing").members}
            assert len(names) == 2
    assert mq.describe_group("billing") == GroupDescription("billing", ("orders",), ())


def test_shared_members_hold_all(mq):
    """In shared modes each member holds every log."""
    with mq.consumer("orders", group="g", mode="shared") as one, mq.consumer("orders", group="g", mode="shared") as two:
        one.receive(0)
        two.receive(0)
        assert held(mq, "g") == [[0, 1], [0, 1]]


def test_topics_are_sorted_and_each_named_once(mq):
    """Topics with only a position and topics with only members are listed alike; a deleted one is not."""
    mq.reset_group("billing", "orders", EARLIEST)
    with mq.consumer("audit", group="billing"):
        assert mq.describe_group("billing").topics == ("audit", "orders")
        mq.delete_topic("orders")
        assert mq.describe_group("billing").topics == ("audit",)


def test_an_unknown_group_has_a_hint(mq):
    """A group without position and members is not found, and the error suggests a similar name."""
    mq.reset_group("billing", "orders", EARLIEST)
    with pytest.raises(mqplug.GroupNotFound, match=r"'biling' has no position.*Did you mean 'billing'\?"):
        mq.describe_group("biling")


@pytest.mark.parametrize("change", ["reset", "delete"])
def test_members_in_the_way_are_named(mq, change):
    """A group with members is not moved or deleted, and the error has their names, even after pickling."""
    with mq.consumer("orders", group="billing"):
        (member,) = mq.describe_group("billing").members
        with pytest.raises(mqplug.ConsumerBusy, match=rf"members: {member.name}\W") as caught:
            mq.reset_group("billing", "orders", EARLIEST) if change == "reset" else mq.delete_group("billing")
    again = pickle.loads(pickle.dumps(caught.value))
    assert [each.name for each in again.members] == [member.name]
    assert str(again) == str(caught.value)


def test_few_members_are_named(mq):
    """The error text names at most five members, and counts the others."""
    consumers = [mq.consumer("orders", group="billing") for _ in range(7)]
    with pytest.raises(mqplug.ConsumerBusy, match=r"(pid-\d+-\d+, ){4}pid-\d+-\d+ and 2 more") as caught:
        mq.delete_group("billing")
    assert len(caught.value.members) == 7
    for each in consumers:
        each.close()


@pytest.mark.parametrize(("member", "text"), [(GroupMember("a"), "a"), (GroupMember("a", "10.0.0.1"), "a on 10.0.0.1")])
def test_a_member_is_shown_with_its_host(member, text):
    """The text of a member is its name, with the host if that is known."""
    assert str(member) == text


# extensions ------------------------------------------------------------------------------------------------


def test_extensions_see_and_disturb_descriptions():
    """A description is recorded with its group, and an injected fault in it is raised; it hides no other error."""
    recorder = Recorder()
    faults = Faults([Rule("describe_group_members", "fail", error="ConnectError")])
    with mqplug.connect("memory", extensions=[recorder, faults]) as client:
        client.create_topic("orders")
        with client.consumer("orders", group="billing"):
            with pytest.raises(mqplug.ConnectError):
                client.describe_group("billing")
            with pytest.raises(mqplug.ConsumerBusy) as caught:
                client.delete_group("billing")
    assert caught.value.members == ()
    calls = [each for each in recorder.calls() if each.operation == "describe_group_members"]
    assert [(each.group, each.topic) for each in calls] == [("billing", None)] * 2


# drivers without the action ---------------------------------------------------------------------------------


@pytest.fixture
def plain():
    """A client of a driver that does not describe groups, with two topics."""
    with narrowed(DescribeGroupMembers) as (client, _):
        client.create_topic("orders", partitions=2)
        client.create_topic("audit")
        yield client


def test_the_core_finds_the_topics(plain):
    """The topics are those in which the group has a position; a group without members has an empty list."""
    plain.reset_group("billing", "orders", EARLIEST)
    assert plain.describe_group("billing") == GroupDescription("billing", ("orders",), ())


def test_the_core_knows_no_members(plain):
    """Members that the driver only counts are None, and an error has no names."""
    with plain.consumer("orders", group="billing"):
        assert plain.describe_group("billing") == GroupDescription("billing", ("orders",), None)
        with pytest.raises(mqplug.ConsumerBusy) as caught:
            plain.delete_group("billing")
    assert caught.value.members == ()
    assert "its members" not in str(caught.value)


def test_the_core_misses_an_unknown_group(plain):
    """A group that is not listed is not found, and the error has a hint."""
    plain.reset_group("billing", "orders", EARLIEST)
    with pytest.raises(mqplug.GroupNotFound, match="Did you mean 'billing'"):
        plain.describe_group("biling")


def test_what_the_core_needs_is_named():
    """Without a list of topics and a description by the driver, the error names the capability."""
    with narrowed(DescribeGroupMembers, ListGroups) as (mq, _):
        mq.create_topic("orders")
        with pytest.raises(mqplug.Unsupported) as caught:
            mq.describe_group("billing")
        assert caught.value.capability == "groups"
