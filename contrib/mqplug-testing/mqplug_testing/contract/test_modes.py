"""GRP: the modes in which members work together."""

from __future__ import annotations

from mqplug import Consumer, ConsumerBusy, Message
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_handover import Team

case = Registry()


@case("GRP-11", needs=("exclusive", "durable_groups"))
def test_exclusive(bench: Bench) -> None:
    """An exclusive group has one member: a second one is ``ConsumerBusy``, and is let in once the first is closed."""
    topic, ids = bench.dripped(4)
    group = bench.name()
    first = bench.member(topic, group, mode="exclusive")
    for message in bench.delivers(first, ids[:2]):
        first.ack(message)
    with bench.raises(ConsumerBusy) as caught:
        bench.member(topic, group, mode="exclusive")
    bench.equal(caught.value.retryable, True)  # type: ignore[attr-defined]
    bench.delivers(bench.member(topic, bench.name(), mode="exclusive"), ids, "another group is another matter")
    bench.delivers(first, ids[2:])
    first.close()
    bench.delivers(bench.member(topic, group, mode="exclusive"), ids[2:])


@case("GRP-12", needs=("groups", "ordered"), timeout=300, profile="full")
def test_standby(bench: Bench) -> None:
    """In order, a member that waits gets nothing while the active one lives, whatever that leaves unacked."""
    topic, group = bench.topic(), bench.name()
    members = [bench.member(topic, group) for _ in range(2)]
    team = Team(bench, *members)
    ids = bench.fill(topic, 3)
    team.gather(ids, "the first messages came")
    active = max((0, 1), key=lambda number: len(team.got[number]))
    standing_by = members[1 - active]
    team.got[1 - active].clear()
    later = bench.fill(topic, 5)
    bench.rests(standing_by)
    bench.delivers(members[active], later)
    bench.rests(standing_by)
    members[active].close()
    team = Team(bench, standing_by)
    team.gather(ids + later, "whoever stood by got all that was not acked")


@case("GRP-13", needs=("shared", "groups"))
def test_shared(bench: Bench) -> None:
    """Members that share a log each get a part of it, nothing twice; what one keeps in hand holds up nobody."""
    topic, ids = bench.dripped(20)
    group = bench.name()
    one, other = (bench.member(topic, group, mode="shared") for _ in range(2))
    [kept] = bench.take(one, 1)
    got: dict[Consumer, list[Message]] = {one: [kept], other: []}

    def poll() -> bool:
        for member, mine in got.items():
            if (message := member.receive(bench.waiting.poll)) is not None:
                member.ack(message)
                mine.append(message)
        return sum(map(len, got.values())) >= len(ids)

    bench.wait(poll, "all but the one in hand came")
    bench.equal(sorted(message.id for mine in got.values() for message in mine), ids)
    bench.that(len(got[one]) > 1 and got[other], "both had their share")
    one.close()
    [again] = bench.delivers(other, [kept.id])
    other.ack(again)
    bench.only_new(other, topic)
