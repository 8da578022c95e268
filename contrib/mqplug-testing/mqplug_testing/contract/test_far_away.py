"""SEEK: to places that lie far beyond the log, and to what is no place in it."""

from __future__ import annotations

from collections.abc import Callable

from mqplug import EARLIEST, InvalidMessageId, MessageId, Position, after
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

BEYOND = (2**31, 2**32, 2**53, 2**62, 2**63, 2**64)
NEGATIVE = (-1, -2, -1000, -1001, -(2**31), -(2**63), -(2**70))
HUGE = (2**63 - 1, 2**63, 2**64 - 1, 2**70, 2**100)


def elsewhere(some: MessageId, number: int) -> Position:
    """The position of a message with another number at the first place."""
    return Position(some.log, (number, *some.coordinates[1:]))


@case("SEEK-36", timeout=300)
def test_far_beyond_the_end(bench: Bench) -> None:
    """A position far beyond the end, as of 2^32 or 2^63, is waited at or refused: nothing that lies before it comes."""
    topic, ids = bench.filled(6)
    for power in BEYOND:
        position = elsewhere(ids[0], power + ids[2].coordinates[0])  # cut to 32 or 64 bits it is that message's
        reader = bench.reader(topic, after(ids[4]))
        try:
            reader.seek(position)
        except InvalidMessageId:
            bench.delivers(reader, ids[5:], "what is refused moves nothing")
            continue
        ids += bench.fill(topic, 1)
        bench.equal(reader.receive(0), None, repr(position))
        bench.rests(reader)
        reader.seek(EARLIEST)
        bench.delivers(reader, ids, f"after {position!r}")


@case("SEEK-37", timeout=300)
def test_no_place(bench: Bench) -> None:
    """Coordinates that cannot be are ``InvalidMessageId`` in a seek, as a start and in a trim, and move nothing."""
    topic, ids = bench.filled(6)
    reader = bench.reader(topic)
    for number in (*NEGATIVE, *HUGE):
        position = elsewhere(ids[0], number)
        bad = MessageId(position.log, position.coordinates, ids[0].detail)
        reader.seek(ids[3])
        for target in (position, after(bad)):
            taken = _takes(bench, lambda target=target: reader.seek(target))  # type: ignore[misc]
            bench.equal(_takes(bench, lambda target=target: bench.reader(topic, target).close()), taken)  # type: ignore[misc]
            bench.that(not taken or number > 0, f"{target!r} was taken")
        if number < 0:
            bench.delivers(reader, ids[3:], "what is refused moves nothing")
    if bench.client.capabilities.trim:
        _trims(bench)


@case("SEEK-39", needs=("durable_groups",), timeout=180)
def test_group_far_beyond_the_end(bench: Bench) -> None:
    """A group sought far beyond the end stands there, or is left where it was: its members get nothing before it."""
    topic, ids = bench.filled(4)
    group = bench.name()
    member = bench.member(topic, group)
    position = elsewhere(ids[0], 2**53 + ids[2].coordinates[0])
    try:
        member.seek(position)
    except InvalidMessageId:
        bench.delivers(member, ids, "what is refused moves nothing")
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
    """Whether this is done; nothing but ``InvalidMessageId`` may say that it is not."""
    bench.comparisons += 1
    try:
        call()
    except InvalidMessageId:
        return False
    return True


def _trims(bench: Bench) -> None:
    """What no position can be is refused; what lies beyond the end means all that there is."""
    topic, ids = bench.filled(3)
    for number in (*NEGATIVE, *HUGE):
        position = elsewhere(ids[0], number)
        if _takes(bench, lambda position=position: bench.client.trim(topic, {0: position})):  # type: ignore[misc]
            bench.that(number > 0, f"{position!r} was taken")
            ids = []
        bench.equal([message.id for message in bench.read(topic)], ids, f"after {position!r}")
        ids += bench.fill(topic, 1)
