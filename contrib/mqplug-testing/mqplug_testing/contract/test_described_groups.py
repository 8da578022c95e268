"""GRP: groups as they are described from outside, with their topics and members."""

from __future__ import annotations

from collections.abc import Mapping

from mqplug import EARLIEST, Consumer, ConsumerBusy, GroupDescription, GroupNotFound, Log
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

MemberLogs = Mapping[str, tuple[Log, ...] | None]
"""The logs of each member by its name; None where the backend does not report them."""


def held(group: GroupDescription) -> MemberLogs | None:
    """Return the logs of each member, or None where the backend does not report members."""
    return None if group.members is None else {member.name: member.logs for member in group.members}


def are_held(logs: MemberLogs | None, wanted: list[list[Log]]) -> bool:
    """Return whether there is a member for each of these lists, which holds those logs, as far as that is reported."""
    if logs is None:
        return True
    told = [sorted(map(str, each)) for each in logs.values() if each is not None]
    return len(logs) == len(wanted) and (not told or sorted(told) == sorted(sorted(map(str, each)) for each in wanted))


def comes_to_hold(bench: Bench, group: str, members: list[Consumer], wanted: list[list[Log]], what: str) -> MemberLogs:
    """Poll the members until they are described with these logs, and return them."""
    seen: MemberLogs | None = None

    def settled() -> bool:
        nonlocal seen
        for member in members:
            member.receive(bench.waiting.poll)
        seen = held(bench.client.describe_group(group))
        return are_held(seen, wanted)

    bench.wait(settled, what)
    return seen or {}


@case("GRP-26", needs=("groups", "ordered", "durable_groups", "partitions"), timeout=300)
def test_describe_members(bench: Bench) -> None:
    """In ordered mode each member is described with the partitions that it holds, and no longer once it left."""
    topic, group = bench.topic(partitions=2), bench.name()
    zero, one = bench.client.partitions(topic)
    members = [bench.member(topic, group) for _ in range(2)]
    bench.member(topic, bench.name()).receive(0)  # is of another group
    both = comes_to_hold(bench, group, members, [[zero], [one]], "each member holds a partition")
    bench.equal(bench.client.describe_group(group).topics, (topic,))
    members[0].close()
    left = comes_to_hold(bench, group, members[1:], [[zero, one]], "the member that stayed holds both")
    bench.that(left.keys() <= both.keys(), "a member keeps its name")
    members[1].close()
    comes_to_hold(bench, group, [], [], "nobody is left")
    bench.equal(bench.client.describe_group(group).topics, (topic,))


@case("GRP-27", needs=("groups", "shared", "partitions"))
def test_describe_shared_members(bench: Bench) -> None:
    """Members that share the messages are described with all partitions each."""
    topic, group = bench.topic(partitions=2), bench.name()
    logs = bench.client.partitions(topic)
    members = [bench.member(topic, group, mode="shared") for _ in range(2)]
    comes_to_hold(bench, group, members, [logs, logs], "each member holds all partitions")


@case("GRP-28", needs=("durable_groups",))
def test_describe_positions(bench: Bench) -> None:
    """A group without members has the topics where it has a position, sorted: not those of others, nor deleted ones."""
    client, topics, group = bench.client, sorted(bench.topic() for _ in range(3)), bench.name()
    for topic in reversed(topics[:2]):
        client.reset_group(group, topic, EARLIEST)
    client.reset_group(f"{group}-1", topics[2], EARLIEST)
    found = client.describe_group(group)
    bench.equal((found.name, found.topics), (group, tuple(topics[:2])))
    bench.that(not found.members, f"members: {found.members}")
    if client.capabilities.delete_topic:
        bench.make_gone(topics[0])
        bench.wait(lambda: client.describe_group(group).topics == (topics[1],), "a deleted topic is not described")


@case("GRP-29", needs=("durable_groups",))
def test_describe_the_unknown(bench: Bench) -> None:
    """A group that nobody made is not found, with a hint at a close name; to ask for it makes none, nor after a
    delete.
    """
    client, topic, group = bench.client, bench.topic(), bench.name()
    client.reset_group(group, topic, EARLIEST)
    with bench.raises(GroupNotFound) as caught:
        client.describe_group(f"{group}-")
    bench.that(repr(group) in str(caught.value), f"the name {group!r} is close: {caught.value}")
    bench.equal([each.name for each in client.groups(topic)], [group])
    bench.admin.delete_group(group)
    with bench.raises(GroupNotFound):
        client.describe_group(group)
    bench.equal(client.groups(topic), [])


@case("GRP-30", needs=("durable_groups", "ordered"))
def test_busy_groups_name_members(bench: Bench) -> None:
    """Who may not move or delete a group is told the names of its members, as far as the backend reports them."""
    topic, group = bench.topic(), bench.name()
    member = bench.member(topic, group)
    there = comes_to_hold(bench, group, [member], [bench.client.partitions(topic)], "the member is there")
    with bench.raises(ConsumerBusy) as moving:
        bench.client.reset_group(group, topic, EARLIEST)
    with bench.raises(ConsumerBusy) as deleting:
        bench.admin.delete_group(group)
    for error in (moving.value, deleting.value):
        named = [each.name for each in getattr(error, "members", ())]
        bench.equal(named, list(there))
        bench.that(all(name in str(error) for name in named), str(error))
