"""SEEK: trimmed messages, positions far beyond the end, and groups that retention overtakes."""

from __future__ import annotations

from collections.abc import Callable

from mqplug import (
    EARLIEST,
    Consumer,
    InvalidMessageId,
    MessageId,
    Position,
    PositionLost,
    Record,
    after,
)
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("SEEK-07", hooks=("trim_before",))
def test_exclusive_at_a_trimmed_message(bench: Bench) -> None:
    """An exclusive seek to a trimmed id raises ``PositionLost``; ``missing="next"`` delivers the first retained one."""
    trimmed = bench.trimmed()
    reader = bench.reader(trimmed.topic)
    with bench.raises(PositionLost) as caught:
        reader.seek(trimmed.gone[0], inclusive=False)
    bench.equal(getattr(caught.value, "low", None), trimmed.low)
    for gone in (trimmed.gone[0], trimmed.gone[-1]):
        reader.seek(gone, inclusive=False, missing="next")
        bench.delivers(reader, trimmed.left)


@case("SEEK-08", hooks=("trim_before",))
def test_inclusive_at_a_trimmed_message(bench: Bench) -> None:
    """An inclusive seek to a trimmed id raises ``PositionLost``; ``missing="next"`` delivers the first retained one."""
    trimmed = bench.trimmed()
    reader = bench.reader(trimmed.topic)
    for gone in (trimmed.gone[0], trimmed.gone[-1]):
        with bench.raises(PositionLost) as caught:
            reader.seek(gone)
        bench.equal(getattr(caught.value, "low", None), trimmed.low)
        reader.seek(gone, missing="next")
        bench.delivers(reader, trimmed.left)


READ_IN_FULL = 200  # messages of 16 KB: more than a member fetches ahead with the prefetch that is set here


@case("SEEK-35", needs=("durable_groups",), hooks=("trim_before",))
def test_group_at_a_trimmed_position(bench: Bench) -> None:
    """A group whose position was trimmed gets ``PositionLost``; ``missing="next"`` skips the gap, and counts it."""
    topic, old = bench.filled(6)
    group = bench.name()
    with bench.member(topic, group) as member:
        for message in bench.delivers(member, old[:2]):
            member.ack(message)
    left = _trimmed(bench, topic, old)
    if reported := _is_reported(bench):
        with bench.member(topic, group) as strict:
            for _ in range(2):
                with bench.raises(PositionLost):
                    strict.receive(bench.patience)
    with bench.member(topic, group, missing="next") as member:
        for message in bench.delivers(member, left):
            member.ack(message)
        bench.equal(member.statistics().gaps, int(reported))
        bench.only_new(member, topic, "then it continues")
        member.commit()
        bench.stands(member.committed()[0], left, len(left))
    _overtake_while_it_reads(bench)


def _is_reported(bench: Bench) -> bool:
    """Return whether a group gets ``PositionLost``. If only retention trims, it moves the groups along instead."""
    return bench.client.capabilities.trim


def _trimmed(bench: Bench, topic: str, old: list[MessageId]) -> list[MessageId]:
    """Send more, let retention remove the earlier messages, and return the retained ones."""
    bench.roll(topic)
    new = bench.fill(topic, 4, begin=len(old))
    bench.trim(topic, Position(new[0].log, new[0].coordinates))
    low = bench.marks(topic).low
    bench.that(not low.precedes(old[2]), "the group's next message was removed")
    return [each for each in [*old, *new] if low.precedes(each)]


def _overtake_while_it_reads(bench: Bench) -> None:
    """Check that a member that is overtaken while it reads continues, and can ack the message that it had."""
    topic = bench.topic()
    old = list(bench.filler(topic).send_many([Record(bytes(16_000), partition=0) for _ in range(READ_IN_FULL)]))
    with bench.member(topic, bench.name(), missing="next", prefetch_bytes=32_000) as member:
        kept = bench.take(member, 1)[0]
        left = _trimmed(bench, topic, old)
        delivered = _until(bench, member, left[-1])
        bench.equal(delivered[-len(left) :], left, "the retained messages come, in order")
        gap = set(old[1:]) - {*delivered, *left}
        bench.equal(member.statistics().gaps, int(bool(gap) and _is_reported(bench)))
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
    """If members share a log, a trimmed group gets ``PositionLost`` or skips the gap; acks after the gap hold."""
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
    if reported := _is_reported(bench):
        with bench.member(topic, group, mode="shared") as strict, bench.raises(PositionLost):
            strict.receive(bench.patience)
    with bench.member(topic, group, mode="shared", missing="next") as member:
        for message in bench.delivers(member, left):
            member.ack(message)
        bench.equal(member.statistics().gaps, int(reported))
        bench.only_new(member, topic, "then it continues")


BEYOND = (2**31, 2**32, 2**53, 2**62, 2**63, 2**64)
NEGATIVE = (-1, -2, -1000, -1001, -(2**31), -(2**63), -(2**70))
HUGE = (2**63 - 1, 2**63, 2**64 - 1, 2**70, 2**100)


def elsewhere(some: MessageId, number: int) -> Position:
    """Return the position of a message, with another number as its first coordinate."""
    return Position(some.log, (number, *some.coordinates[1:]))


@case("SEEK-36", timeout=300)
def test_far_beyond_the_end(bench: Bench) -> None:
    """A seek far beyond the end, such as to 2^32 or 2^63, waits there or is refused: no earlier message comes."""
    topic, ids = bench.filled(6)
    for power in BEYOND:
        position = elsewhere(ids[0], power + ids[2].coordinates[0])  # truncated to 32 or 64 bits, it is that message's
        reader = bench.reader(topic, after(ids[4]))
        try:
            reader.seek(position)
        except InvalidMessageId:
            bench.delivers(reader, ids[5:], "a refused seek moves nothing")
            continue
        ids += bench.fill(topic, 1)
        bench.equal(reader.receive(0), None, repr(position))
        bench.rests(reader)
        reader.seek(EARLIEST)
        bench.delivers(reader, ids, f"after {position!r}")


@case("SEEK-37", timeout=300)
def test_no_place(bench: Bench) -> None:
    """Impossible coordinates raise ``InvalidMessageId`` in a seek, as a start and in a trim, and move nothing."""
    topic, ids = bench.filled(6)
    reader = bench.reader(topic)
    for number in (*NEGATIVE, *HUGE):
        position = elsewhere(ids[0], number)
        bad = MessageId(position.log, position.coordinates, ids[0].detail)
        reader.seek(ids[3])
        for target in (position, after(bad)):
            taken = _takes(bench, lambda target=target: reader.seek(target))  # type: ignore[misc]
            bench.equal(_takes(bench, lambda target=target: bench.reader(topic, target).close()), taken)  # type: ignore[misc]
            bench.that(not taken or number > 0, f"{target!r} was accepted")
        if number < 0:
            bench.delivers(reader, ids[3:], "a refused seek moves nothing")
    if bench.client.capabilities.trim:
        _trims(bench)


@case("SEEK-39", needs=("durable_groups",), timeout=180)
def test_group_far_beyond_the_end(bench: Bench) -> None:
    """A group that seeks far beyond the end stays there, or the seek is refused: no member gets an earlier message."""
    topic, ids = bench.filled(4)
    group = bench.name()
    member = bench.member(topic, group)
    position = elsewhere(ids[0], 2**53 + ids[2].coordinates[0])
    try:
        member.seek(position)
    except InvalidMessageId:
        bench.delivers(member, ids, "a refused seek moves nothing")
        return
    for _ in range(2):
        ids += bench.fill(topic, 1)
        bench.rests(member)
        bench.equal(member.position()[0], position)
        member.close()
        member = bench.member(topic, group)
    bench.rests(member)
    bench.equal(bench.client.positions(topic, group=group)[0].position, position)
    member.seek(EARLIEST)
    bench.delivers(member, ids, f"after {position!r}")


def _takes(bench: Bench, call: Callable[[], object]) -> bool:
    """Return whether a call succeeds; it may only fail with ``InvalidMessageId``."""
    bench.comparisons += 1
    try:
        call()
    except InvalidMessageId:
        return False
    return True


def _trims(bench: Bench) -> None:
    """Check that a trim refuses impossible positions, and that one beyond the end removes all messages."""
    topic, ids = bench.filled(3)
    for number in (*NEGATIVE, *HUGE):
        position = elsewhere(ids[0], number)
        if _takes(bench, lambda position=position: bench.client.trim(topic, {0: position})):  # type: ignore[misc]
            bench.that(number > 0, f"{position!r} was accepted")
            ids = []
        bench.equal([message.id for message in bench.read(topic)], ids, f"after {position!r}")
        ids += bench.fill(topic, 1)
