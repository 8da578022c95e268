"""GRP: groups, and how their members share the work."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mqplug import Consumer, Log, Message, MessageId
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


def collect(bench: Bench, members: Sequence[Consumer], ids: Sequence[MessageId]) -> list[list[Message]]:
    """What each member receives, in turn and acked at once, until all these came."""
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

    bench.wait(shared, "each member is given its share of the partitions")


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
    """When a member joins, nothing is lost; what was acked comes twice at most where hand-overs cannot be seen."""
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
    """When a member leaves, another goes on where it stopped, with what it had not acked."""
    topic, ids = bench.filled(8)
    group = bench.name()
    first = bench.member(topic, group)
    for message in bench.delivers(first, ids[:6])[:4]:
        first.ack(message)
    if not bench.client.capabilities.assignment_events:
        first.commit()  # nobody sees the hand-over there, and it may repeat the acks of the last second
    second = bench.member(topic, group)
    first.close()
    bench.delivers(second, ids[4:])


@case("GRP-07", needs=("assignment_events", "groups", "partitions"), timeout=300)
def test_assignment_events(bench: Bench) -> None:
    """Each hand-over is told once: assigned, revoked, and only then assigned to another."""
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
        told = [(what, number) for what, number, of in events if of is log]
        bench.equal([what for what, _ in told], (["assigned", "revoked"] * len(told))[: len(told)])
        bench.equal([number for _, number in told[:-1:2]], [number for _, number in told[1::2]], "who had it gave it")
        bench.that(len(told) % 2, "somebody holds it")
    bench.equal({number for what, number, _ in events if what == "assigned"}, {0, 1})


@case("GRP-09", needs=("groups", "ordered"), timeout=300)
def test_spare_member(bench: Bench) -> None:
    """A member too many gets nothing, and takes over when the other one leaves."""
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
    """The position of a group survives a restart."""
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
    """What one group acks or seeks leaves the stored position of another as it is."""
    topic, ids = bench.filled(6)
    name = bench.name()
    one, other = (bench.member(topic, group) for group in (name, f"{name}-1"))  # alike, as far as the first one goes
    for member in (one, other):
        member.ack_through(bench.delivers(member, ids)[3])
        member.commit()
    one.seek(ids[1])
    bench.stands(other.committed()[0], ids, 4)
    one.ack_through(bench.delivers(one, ids[1:])[-1])
    one.commit()
    bench.stands(other.committed()[0], ids, 4)
    bench.stands(one.committed()[0], ids, 6)
