"""GRP: groups, how their members share the work, and how groups are described from outside."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from mqplug import EARLIEST, Consumer, ConsumerBusy, GroupDescription, GroupNotFound, Log, Message, MessageId, last
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


def collect(bench: Bench, members: Sequence[Consumer], ids: Sequence[MessageId]) -> list[list[Message]]:
    """Let each member receive and ack in turn until all these came, and return the messages of each."""
    end = time.monotonic() + bench.patience
    taken: list[list[Message]] = [[] for _ in members]
    missing = set(ids)
    while missing and time.monotonic() < end:
        for member, mine in zip(members, taken, strict=True):
            while (message := member.receive(bench.waiting.poll)) is not None:
                member.ack(message)
                mine.append(message)
                missing.discard(message.id)
    bench.equal(missing, set(), "all came")
    return taken


def settled(bench: Bench, topic: str, members: Sequence[Consumer], partitions: int) -> None:
    """Send to every partition until each member has its share."""

    def shared() -> bool:
        ids = [each for number in range(partitions) for each in bench.fill(topic, 1, partition=number)]
        return all(collect(bench, members, ids))

    bench.wait(shared, "each member gets its share of the partitions")


@case("GRP-01", needs=("groups",))
def test_each_group(bench: Bench) -> None:
    """Two groups each get every message."""
    topic, ids = bench.filled(8)
    members = [bench.member(topic, bench.name()) for _ in range(2)]
    for member in members:
        for message in bench.delivers(member, ids[:5]):
            member.ack(message)
    for member in members:
        bench.delivers(member, ids[5:])


@case("GRP-02", needs=("groups", "partitions"), timeout=300)
def test_shared_work(bench: Bench) -> None:
    """Two members of a group share its partitions: together they get every message, and none twice."""
    topic, group = bench.topic(partitions=4), bench.name()
    members = [bench.member(topic, group) for _ in range(2)]
    settled(bench, topic, members, 4)
    ids = [each for number in range(4) for each in bench.fill(topic, 10, partition=number)]
    taken = [[message.id for message in mine if message.id in set(ids)] for mine in collect(bench, members, ids)]
    bench.equal(sorted(map(str, taken[0] + taken[1])), sorted(map(str, ids)))
    bench.that(taken[0] and taken[1], "both had their share")
    bench.equal({each.log for each in taken[0]} & {each.log for each in taken[1]}, set())


@case("GRP-04", needs=("groups", "partitions"), timeout=300)
def test_joining(bench: Bench) -> None:
    """When a member joins, nothing is lost; acked messages come twice only if hand-overs are not reported."""
    topic, group = bench.topic(partitions=2), bench.name()
    first = bench.member(topic, group)
    before = [each for number in range(2) for each in bench.fill(topic, 10, partition=number)]
    taken = collect(bench, [first], before)[0]
    members = [first, bench.member(topic, group)]
    after = [each for number in range(2) for each in bench.fill(topic, 10, partition=number)]
    later = [message for mine in collect(bench, members, after) for message in mine]
    settled(bench, topic, members, 2)
    found = [message.id for message in taken + later]
    bench.equal(set(found) >= {*before, *after}, True)
    if bench.client.capabilities.assignment_events:
        bench.equal(len(found), 40)


@case("GRP-05", needs=("durable_groups",), timeout=300)
def test_leaving(bench: Bench) -> None:
    """When a member leaves, another continues with its unacked messages."""
    topic, ids = bench.filled(8)
    group = bench.name()
    first = bench.member(topic, group)
    for message in bench.delivers(first, ids[:6])[:4]:
        first.ack(message)
    if not bench.client.capabilities.assignment_events:
        first.commit()  # an unreported hand-over may repeat the messages acked in the last second
    second = bench.member(topic, group)
    first.close()
    bench.delivers(second, ids[4:])


@case("GRP-07", needs=("assignment_events", "groups", "partitions"), timeout=300)
def test_assignment_events(bench: Bench) -> None:
    """Each hand-over is reported once: assigned, revoked, and only then assigned to another member."""
    topic, group = bench.topic(partitions=2), bench.name()
    events: list[tuple[str, int, Log]] = []

    def member(number: int) -> Consumer:
        return bench.member(
            topic,
            group,
            on_assigned=lambda logs: events.extend(("assigned", number, log) for log in logs),
            on_revoked=lambda logs: events.extend(("revoked", number, log) for log in logs),
        )

    members = [member(0)]
    settled(bench, topic, members, 2)
    members.append(member(1))
    settled(bench, topic, members, 2)
    for log in bench.client.partitions(topic):
        seen = [(what, number) for what, number, of in events if of is log]
        bench.equal([what for what, _ in seen], (["assigned", "revoked"] * len(seen))[: len(seen)])
        bench.equal(
            [number for _, number in seen[:-1:2]], [number for _, number in seen[1::2]], "revoked by its holder"
        )
        bench.that(len(seen) % 2, "a member holds it")
    bench.equal({number for what, number, _ in events if what == "assigned"}, {0, 1})


@case("GRP-09", needs=("groups", "ordered"), timeout=300)
def test_spare_member(bench: Bench) -> None:
    """A surplus member gets nothing, and takes over when the other one leaves."""
    topic, group = bench.topic(), bench.name()
    members = [bench.member(topic, group) for _ in range(2)]
    collect(bench, members, bench.fill(topic, 1))
    ids = bench.fill(topic, 20)
    taken = collect(bench, members, ids)
    active = max((0, 1), key=lambda number: len(taken[number]))
    bench.equal([message.id for message in taken[active]], ids)
    bench.equal(taken[1 - active], [])
    members[active].close()
    later = bench.fill(topic, 5)
    bench.delivers(members[1 - active], later)


@case("GRP-14", needs=("durable_groups",), hooks=("restart",), profile="full")
def test_survives_a_restart(bench: Bench) -> None:
    """The stored position of a group survives a restart."""
    topic, ids = bench.filled(6)
    group = bench.name()
    member = bench.member(topic, group)
    for message in bench.delivers(member, ids)[:4]:
        member.ack(message)
    member.commit()
    bench.restart()
    bench.delivers(bench.member(topic, group), ids[4:])


@case("GRP-15", needs=("durable_groups",))
def test_groups_apart(bench: Bench) -> None:
    """An ack, a commit or a seek of one group does not move the stored position of another."""
    topic, ids = bench.filled(6)
    name = bench.name()
    one, other = (bench.member(topic, group) for group in (name, f"{name}-1"))  # the second begins with the first
    for member in (one, other):
        member.ack_through(bench.delivers(member, ids)[3])
        member.commit()
    one.seek(ids[1])
    bench.stands(other.committed()[0], ids, 4)
    one.ack_through(bench.delivers(one, ids[1:])[-1])
    one.commit()
    bench.stands(other.committed()[0], ids, 4)
    bench.stands(one.committed()[0], ids, 6)


MemberLogs = Mapping[str, tuple[Log, ...] | None]
"""The logs of each member by its name; None if the backend does not report them."""


def held(group: GroupDescription) -> MemberLogs | None:
    """Return the logs of each member, or None if the backend does not report members."""
    return None if group.members is None else {member.name: member.logs for member in group.members}


def are_held(logs: MemberLogs | None, wanted: list[list[Log]]) -> bool:
    """Return whether each of these lists is held by a member of its own, as far as the backend reports that."""
    if logs is None:
        return True
    seen = [sorted(map(str, each)) for each in logs.values() if each is not None]
    return len(logs) == len(wanted) and (not seen or sorted(seen) == sorted(sorted(map(str, each)) for each in wanted))


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
    """In ordered mode each member is described with the partitions that it holds, until it leaves."""
    topic, group = bench.topic(partitions=2), bench.name()
    zero, one = bench.client.partitions(topic)
    members = [bench.member(topic, group) for _ in range(2)]
    bench.member(topic, bench.name()).receive(0)  # of another group
    both = comes_to_hold(bench, group, members, [[zero], [one]], "each member holds a partition")
    bench.equal(bench.client.describe_group(group).topics, (topic,))
    members[0].close()
    left = comes_to_hold(bench, group, members[1:], [[zero, one]], "the member that stayed holds both")
    bench.that(left.keys() <= both.keys(), "a member keeps its name")
    members[1].close()
    comes_to_hold(bench, group, [], [], "no member is left")
    bench.equal(bench.client.describe_group(group).topics, (topic,))


@case("GRP-27", needs=("groups", "shared", "partitions"))
def test_describe_shared_members(bench: Bench) -> None:
    """Members that share the messages are each described with all partitions."""
    topic, group = bench.topic(partitions=2), bench.name()
    logs = bench.client.partitions(topic)
    members = [bench.member(topic, group, mode="shared") for _ in range(2)]
    comes_to_hold(bench, group, members, [logs, logs], "each member holds all partitions")


@case("GRP-28", needs=("durable_groups",))
def test_describe_positions(bench: Bench) -> None:
    """A group without members is described with the existing topics in which it has a position, sorted."""
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
    """Describing an unknown or deleted group raises ``GroupNotFound``, with a similar name, and creates none."""
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
    """The ``ConsumerBusy`` of a reset or a delete names the group's members, as far as the backend reports them."""
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


@case("GRP-21", needs=("durable_groups",), hooks=("trim_before",))
def test_opened_on_a_trimmed_topic(bench: Bench) -> None:
    """A group opened on a trimmed topic begins at the first retained message, or at the last n retained ones."""
    trimmed = bench.trimmed()
    topic, gone, left = trimmed.topic, trimmed.gone, trimmed.left
    starts = ((EARLIEST, 0), (last(len(gone + left) + 1), 0), (last(len(left)), 0), (last(2), len(left) - 2))
    for start, index in starts:
        with bench.step(f"without a group, {start!r}"):
            bench.delivers(bench.reader(topic, start), left[index:])
        for mode in ("ordered", "shared", "key_shared"):
            if getattr(bench.client.capabilities, mode):
                with bench.step(f"{mode}, {start!r}"):
                    bench.delivers(bench.member(topic, bench.name(), start=start, mode=mode), left[index:])
        with bench.step(f"reset to {start!r}"):
            group = bench.name()
            bench.client.reset_group(group, topic, start)
            bench.stands(bench.client.positions(topic, group=group)[0].position, gone + left, len(gone) + index)
            bench.delivers(bench.member(topic, group), left[index:])
