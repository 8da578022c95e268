"""SEEK: groups that retention overtook."""

from __future__ import annotations

from mqplug import Consumer, MessageId, Position, PositionLost, Record
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

READ_IN_FULL = 200  # messages of 16 KB: more than a member fetches ahead with the prefetch that is asked for here


@case("SEEK-35", needs=("durable_groups",), hooks=("trim_before",))
def test_group_at_a_trimmed_position(bench: Bench) -> None:
    """A group whose position was trimmed is ``PositionLost``; with ``missing="next"`` it goes on, and counts a gap."""
    topic, old = bench.filled(6)
    group = bench.name()
    with bench.member(topic, group) as member:
        for message in bench.delivers(member, old[:2]):
            member.ack(message)
    left = _trimmed(bench, topic, old)
    if told := _tells(bench):
        with bench.member(topic, group) as strict:
            for _ in range(2):
                with bench.raises(PositionLost):
                    strict.receive(bench.patience)
    with bench.member(topic, group, missing="next") as member:
        for message in bench.delivers(member, left):
            member.ack(message)
        bench.equal(member.statistics().gaps, int(told))
        bench.only_new(member, topic, "and then goes on")
        member.commit()
        bench.stands(member.committed()[0], left, len(left))
    _overtake_while_it_reads(bench)


def _tells(bench: Bench) -> bool:
    """Whether a group is told. Where messages cannot be trimmed at will, retention takes its groups along instead."""
    return bench.client.capabilities.trim


def _trimmed(bench: Bench, topic: str, old: list[MessageId]) -> list[MessageId]:
    """Send more, and have retention remove what came before; what is left."""
    bench.roll(topic)
    new = bench.fill(topic, 4, begin=len(old))
    bench.trim(topic, Position(new[0].log, new[0].coordinates))
    low = bench.marks(topic).low
    bench.that(not low.precedes(old[2]), "the group's next message was removed")
    return [each for each in [*old, *new] if low.precedes(each)]


def _overtake_while_it_reads(bench: Bench) -> None:
    """A member that is overtaken while it reads goes on, and what it had in hand can be acked."""
    topic = bench.topic()
    old = list(bench.filler(topic).send_many([Record(bytes(16_000), partition=0) for _ in range(READ_IN_FULL)]))
    with bench.member(topic, bench.name(), missing="next", prefetch_bytes=32_000) as member:
        kept = bench.take(member, 1)[0]
        left = _trimmed(bench, topic, old)
        delivered = _until(bench, member, left[-1])
        bench.equal(delivered[-len(left) :], left, "what is left comes, in order")
        gap = set(old[1:]) - {*delivered, *left}
        bench.equal(member.statistics().gaps, int(bool(gap) and _tells(bench)))
        member.ack(kept)
        member.commit()
        bench.equal(member.late_acks, 0)


def _until(bench: Bench, member: Consumer, last: MessageId) -> list[MessageId]:
    found: list[MessageId] = []
    while not found or found[-1] != last:
        batch = member.receive_many(1, bench.patience)
        bench.that(len(batch), f"more comes after {found[-1:]}")
        found += batch.ids
    return found


@case("SEEK-35-shared", needs=("shared", "durable_groups", "individual_ack"), hooks=("trim_before",))
def test_group_at_a_trimmed_position_shared(bench: Bench) -> None:
    """Where members share a log, too; and what was acked behind the gap does not come again."""
    topic, old = bench.dripped(6)
    bench.roll(topic)
    group = bench.name()
    ahead = [*bench.fill(topic, 1, begin=6), *bench.fill(topic, 1, begin=7)]
    with bench.member(topic, group, mode="shared") as member:
        for message in bench.delivers(member, [*old, *ahead]):
            if message.id in {old[0], ahead[0]}:
                member.ack(message)
    bench.roll(topic)
    bench.trim(topic, Position(ahead[0].log, ahead[0].coordinates))
    low = bench.marks(topic).low
    bench.that(not low.precedes(old[1]), "the group's next message was removed")
    left = [each for each in [*old[1:], ahead[1]] if low.precedes(each)]
    if told := _tells(bench):
        with bench.member(topic, group, mode="shared") as strict, bench.raises(PositionLost):
            strict.receive(bench.patience)
    with bench.member(topic, group, mode="shared", missing="next") as member:
        for message in bench.delivers(member, left):
            member.ack(message)
        bench.equal(member.statistics().gaps, int(told))
        bench.only_new(member, topic, "and then goes on")
