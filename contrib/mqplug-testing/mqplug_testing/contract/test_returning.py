"""ACK: what is given back, or kept too long, comes again, and goes to the dead letters in the end."""

from __future__ import annotations

import time
from collections.abc import Iterator

from mqplug import Consumer, Message, MessageId, Retry
from mqplug.spi import Mode
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.lone_member import as_lone_member
from mqplug_testing._case_tools.registry import Registry

case = Registry()

FAR_OFF = 3600.0  # seconds
AWAY = 1.2  # seconds; whoever takes nothing for longer than one is taken care of by mqplug
BRIEF = 0.5  # seconds; mqplug commits each second, so later than that


def again(bench: Bench, member: Consumer, message_id: MessageId, attempt: int) -> Message:
    """Check that this message comes next, and is delivered for the so-manieth time."""
    [message] = bench.delivers(member, [message_id])
    bench.equal(message.attempt, attempt)
    return message


@case("ACK-06", needs=("nack", "ordered"))
def test_first_word(bench: Bench) -> None:
    """The first word on a message counts: ack after nack, and nack after ack, change nothing and are counted."""
    topic, ids = bench.dripped(3)
    group = bench.name()
    member = bench.member(topic, group)
    acked, returned, last = bench.delivers(member, ids)
    member.ack(acked)
    member.nack(acked, delay=0)
    member.nack(returned, delay=0)
    member.ack(returned)
    member.nack(returned, delay=0)
    bench.equal(member.late_acks, 3)
    member.ack(again(bench, member, ids[1], attempt=2))
    member.ack(last)
    probe = bench.only_new(member, topic)
    member.close()
    if bench.client.capabilities.durable_groups:
        bench.delivers(bench.member(topic, group), [probe])


@case("ACK-07", needs=("nack", "ordered", "durable_groups"))
def test_nack(bench: Bench) -> None:
    """What is given back comes again, to this member or to whoever takes its place, until it is acked."""
    topic, ids = bench.dripped(3)
    group = bench.name()
    member = bench.member(topic, group)
    for message in bench.delivers(member, ids[:2]):
        if message.id == ids[1]:
            member.nack(message, delay=0)
        else:
            member.ack(message)
    member.nack(again(bench, member, ids[1], attempt=2), delay=FAR_OFF)
    bench.equal(member.statistics().returned, 2)
    member.close()
    heir = bench.member(topic, group)
    for message in bench.delivers(heir, ids[1:]):
        heir.ack(message)
    heir.commit()
    bench.stands(heir.committed()[0], ids, 3)


@case("ACK-07-shared", needs=("nack", "shared"))
def test_nack_among_many(bench: Bench) -> None:
    """Where members share a log, what one gives back comes again, to any of them, as another attempt."""
    topic, ids = bench.dripped(1)
    group = bench.name()
    members = [bench.member(topic, group, mode="shared") for _ in range(2)]
    [message] = bench.take(members[0], 1)
    members[0].nack(message, delay=0)
    came = list[tuple[MessageId, int]]()

    def poll() -> bool:
        for member in members:
            for each in member.receive_many(10, bench.waiting.poll):
                came.append((each.id, each.attempt))
                member.ack(each)
        return bool(came)

    bench.wait(poll, "what was given back came again")
    bench.equal(came, [(ids[0], 2)])


@case("ACK-08", needs=("nack", "ordered"))
def test_held_back(bench: Bench) -> None:
    """In order, what is given back comes before all else of its partition, as one attempt more each time."""
    as_lone_member(bench, _held_back)
    if bench.client.capabilities.partitions:
        as_lone_member(bench, _others_go_on, partitions=2)


def _held_back(bench: Bench, topic: str, member: Consumer) -> None:
    ids = bench.fill(topic, 4)
    first, second = bench.delivers(member, ids[:2])
    member.nack(second, delay=0)
    member.nack(first, delay=0.3)
    bench.rests(member)
    for attempt in (2, 3, 4):
        first = again(bench, member, ids[0], attempt)
        if attempt < 4:
            member.nack(first, delay=0)
    bench.rests(member)
    bench.equal([(each.waits_for, each.blocked_by) for each in member.state()], [("returned", ids[0])])
    member.ack(first)
    member.ack(again(bench, member, ids[1], attempt=2))
    bench.delivers(member, ids[2:])


def _others_go_on(bench: Bench, topic: str, member: Consumer) -> None:
    bench.fill(topic, 3, partition=0)
    member.nack(bench.take(member, 1)[0], delay=FAR_OFF)
    bench.delivers(member, bench.fill(topic, 3, partition=1), "another partition goes on")


@case("ACK-08-shared", needs=("nack", "shared"))
def test_nobody_held_back(bench: Bench) -> None:
    """Where members share a log, the others go on while a message that was given back waits for its time."""
    topic, ids = bench.dripped(4)
    member = bench.member(topic, bench.name(), mode="shared")
    [message] = bench.delivers(member, ids[:1])
    member.nack(message, delay=0.5)
    for each in bench.delivers(member, ids[1:]):
        member.ack(each)
    member.ack(again(bench, member, ids[0], attempt=2))
    bench.only_new(member, topic)


@case("ACK-11", needs=("ack_timeout", "ordered", "durable_groups"), timeout=180, profile="full")
def test_away_too_long(bench: Bench) -> None:
    """A member that takes nothing for longer than ``max_processing`` loses its work: another gets what is not acked."""
    topic, ids = bench.dripped(4)
    group = bench.name()
    slow = bench.member(topic, group, max_processing=AWAY)
    done, stuck = bench.delivers(slow, ids[:2])
    slow.ack(done)
    slow.commit()
    bench.wait(lambda: not slow.assignment(), "the member that is away lost its partition")
    other = bench.member(topic, group)
    for message in bench.delivers(other, ids[1:]):
        other.ack(message)
    slow.ack(stuck)
    bench.equal(slow.late_acks, 1)
    other.commit()
    bench.stands(other.committed()[0], ids, 4)


@case("ACK-11-shared", needs=("ack_timeout", "shared"), timeout=180)
def test_kept_too_long(bench: Bench) -> None:
    """Where members share a log, a message is taken back from whoever has it for longer than ``max_processing``."""
    for mode in sharing_modes(bench):
        _take_back(bench, mode)


def sharing_modes(bench: Bench) -> Iterator[Mode]:
    """The modes of the backend in which members share a log."""
    modes: tuple[Mode, ...] = ("shared", "key_shared")
    for mode in modes:
        if getattr(bench.client.capabilities, mode):
            yield mode


def _take_back(bench: Bench, mode: Mode) -> None:
    topic, ids = bench.dripped(2)
    group = bench.name()
    slow = bench.member(topic, group, mode=mode, max_processing=BRIEF)
    kept, done = bench.delivers(slow, ids)
    slow.ack(done)
    slow.commit()
    bench.equal([kept.attempt, again(bench, slow, ids[0], attempt=2).attempt], [1, 2])
    other = bench.member(topic, group, mode=mode, max_processing=BRIEF)
    [last] = bench.delivers(other, ids[:1])
    counted = bench.client.capabilities.durable_delivery_count  # else a member may have counted for itself
    bench.that(last.attempt in ({3} if counted else {2, 3}), f"the attempt is {last.attempt}")
    other.ack(last)
    bench.only_new(other, topic)


@case("ACK-31", needs=("ack_timeout", "shared"), timeout=180)
def test_acked_in_time(bench: Bench) -> None:
    """An ack stops the clock of ``max_processing``: the message does not come again, however late it is committed."""
    for mode in sharing_modes(bench):
        topic, group = bench.topic(), bench.name()
        members = [bench.member(topic, group, mode=mode, max_processing=BRIEF) for _ in range(2)]
        sent = bench.fill(topic, 1)
        members[0].commit()  # which mqplug does again a second later
        members[0].ack(bench.delivers(members[0], sent)[0])
        bench.equal(members[1].receive(3 * BRIEF), None, "what was acked does not come again")
        members[0].commit()
        bench.equal(members[0].late_acks, 0)
        bench.only_new(members[1], topic)


@case("ACK-32", needs=("ack_timeout", "shared"), timeout=180)
def test_acked_too_late(bench: Bench) -> None:
    """An ack after ``max_processing`` counts if no other member took the message meanwhile, and else is a late one."""
    for mode in sharing_modes(bench):
        topic, ids = bench.dripped(2)
        group = bench.name()
        slow = bench.member(topic, group, mode=mode, max_processing=BRIEF)
        free, taken = bench.delivers(slow, ids)
        time.sleep(2 * BRIEF)  # its time is over, whatever the backend does then
        slow.ack(free)
        slow.commit()
        bench.equal(slow.late_acks, 0)
        other = bench.member(topic, group, mode=mode, max_processing=60)
        mine = again(bench, other, ids[1], attempt=2)
        slow.ack(taken)
        slow.commit()
        bench.equal(slow.late_acks, 1, "another member has it")
        other.ack(mine)
        other.commit()
        bench.equal(other.late_acks, 0)
        bench.only_new(other, topic)


@case("ACK-18", needs=("dead_letter", "ordered", "headers", "durable_groups"))
def test_dead_letter(bench: Bench) -> None:
    """When its attempts are used up a message goes to the dead letters, as it was and with the reason, and is acked."""
    topic, dead, able = bench.topic(), bench.topic(), bench.client.capabilities
    key, moment = b"k" if able.keys else None, 1_700_000_000_000 if able.timestamps_producer else None
    poison = bench.filler(topic).send(b"poison", key=key, headers=(("a", b"b"),), timestamp=moment, partition=0)
    ids = [poison, *bench.fill(topic, 1)]
    member = bench.member(topic, bench.name(), retry=Retry(3, delay=0), dead_letter=dead)
    for attempt in (1, 2, 3):
        member.nack(again(bench, member, poison, attempt), reason=ValueError("it does not parse"))
    member.ack(bench.delivers(member, ids[1:])[0])
    [letter] = bench.take(bench.reader(dead), 1)
    bench.equal((letter.value, letter.key), (b"poison", key))
    if moment is not None:
        bench.equal(letter.timestamp.timestamp() * 1000, moment)
    headers = dict(letter.headers)
    bench.that("it does not parse" in (headers.pop("mqplug-dead-reason", None) or b"").decode(), "the reason is there")
    source = str(poison).encode()
    bench.equal(headers, {"a": b"b", "mqplug-dead-source": source, "mqplug-dead-attempts": b"3"})
    bench.equal(member.statistics().dead_lettered, 1)
    member.commit()
    bench.stands(member.committed()[0], ids, 2)
    bench.only_new(member, topic)
