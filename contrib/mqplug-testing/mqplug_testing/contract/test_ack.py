"""ACK: what is done, and what comes back."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from mqplug import LATEST, Closed, Consumer, InvalidMessageId, Message, MessageId, Unsupported
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


def members_turn(bench: Bench, topic: str, group: str, ids: list[MessageId]) -> tuple[Consumer, list[Message]]:
    """A member of the group that has received these messages."""
    member = bench.member(topic, group)
    return member, bench.delivers(member, ids)


@case("ACK-01", needs=("durable_groups",))
def test_acked_stays_away(bench: Bench) -> None:
    """After a clean close, what was acked is not delivered again."""
    topic, ids = bench.filled(6)
    group = bench.name()
    member, taken = members_turn(bench, topic, group, ids)
    for message in taken[:4]:
        member.ack(message)
    member.close()
    bench.delivers(bench.member(topic, group), ids[4:])


@case("ACK-02", needs=("durable_groups",))
def test_unacked_comes_back(bench: Bench) -> None:
    """After a clean close, what was received and not acked is delivered again."""
    topic, ids = bench.filled(6)
    group = bench.name()
    member, _ = members_turn(bench, topic, group, ids)
    member.close()
    again, taken = members_turn(bench, topic, group, ids)
    again.ack(taken[0])
    again.close()
    bench.delivers(bench.member(topic, group), ids[1:])


@case("ACK-03", needs=("durable_groups", "individual_ack"))
def test_gaps_come_back(bench: Bench) -> None:
    """Of messages acked out of order, after a clean close only the gaps come back."""
    topic, ids = bench.topic(), list[MessageId]()
    for number in range(10):  # one at a time: a backend may keep and give back whole batches
        ids += bench.fill(topic, 1, begin=number)
    group = bench.name()
    member, taken = members_turn(bench, topic, group, ids)
    for index in (7, 0, 3, 4, 9, 1):
        member.ack(taken[index])
    member.close()
    again = bench.member(topic, group)
    rest = bench.delivers(again, [ids[index] for index in (2, 5, 6, 8)])
    bench.only_new(again, topic)
    again.ack(rest[0])
    again.close()
    bench.delivers(bench.member(topic, group), [ids[index] for index in (5, 6, 8)])


@case("ACK-04", needs=("durable_groups", "cumulative_ack"))
def test_ack_through(bench: Bench) -> None:
    """``ack_through`` acks a message and all that were delivered before it."""
    topic, ids = bench.filled(8)
    group = bench.name()
    member, taken = members_turn(bench, topic, group, ids)
    member.ack_through(taken[4])
    member.close()
    bench.delivers(bench.member(topic, group), ids[5:])


@case("ACK-05", needs=("groups",))
def test_ack_twice(bench: Bench) -> None:
    """Acking a message twice, before or after a commit, is no error and is counted."""
    topic, ids = bench.filled(4)
    member, taken = members_turn(bench, topic, bench.name(), ids)
    member.ack(taken[0])
    member.ack(taken[0])
    bench.equal(member.late_acks, 1)
    member.commit()
    member.ack(taken[0])
    member.ack(taken[0].id)
    bench.equal(member.late_acks, 3)
    bench.only_new(member, topic)


@case("ACK-09", needs=("durable_groups",))
def test_ack_of_others(bench: Bench) -> None:
    """Acking what this consumer never delivered is ``InvalidMessageId``, and acks nothing."""
    topic, ids = bench.filled(6)
    group = bench.name()
    member, taken = members_turn(bench, topic, group, ids[:3])
    stranger = bench.take(bench.reader(topic), 1)[0]
    other, others = members_turn(bench, topic, bench.name(), ids[:2])
    _, foreign = bench.filled(1)
    for wrong in (stranger, others[1], ids[5], foreign[0]):
        with bench.raises(InvalidMessageId):
            member.ack(wrong)
        with bench.raises(InvalidMessageId):
            member.ack_through(wrong)
    for wrong_type in ("text", None):
        with bench.raises(TypeError):
            member.ack(wrong_type)  # type: ignore[arg-type]
    member.ack(taken[0].id)
    member.close()
    other.close()
    bench.delivers(bench.member(topic, group), ids[1:])


@case("ACK-10", needs=("groups",))
def test_ack_after_close(bench: Bench) -> None:
    """Acking after close is ``Closed``; without a group it is ``Unsupported``."""
    topic, ids = bench.filled(2)
    member, taken = members_turn(bench, topic, bench.name(), ids)
    member.close()
    for call in (member.ack, member.ack_through):
        with bench.raises(Closed):
            call(taken[0])
    with bench.raises(Closed):
        member.commit()
    reader = bench.reader(topic)
    message = bench.take(reader, 1)[0]
    for call in (reader.ack, reader.ack_through):
        with bench.raises(Unsupported):
            call(message)


@case("ACK-13", needs=("groups", "durable_groups"))
def test_commit(bench: Bench) -> None:
    """After acks and a commit the stored position is exactly there, and a new member starts there."""
    topic, ids = bench.filled(9)
    group = bench.name()
    member, taken = members_turn(bench, topic, group, ids)
    for count in (2, 5):
        for message in taken[:count]:
            member.ack(message)
        member.commit()
        bench.stands(member.committed()[0], ids, count)
    member.close()
    bench.delivers(bench.member(topic, group), ids[5:])


@case("ACK-14", needs=("commit", "durable_groups"))
def test_commit_and_position(bench: Bench) -> None:
    """What is committed never lies beyond what was delivered, nor beyond what was acked."""
    topic, ids = bench.filled(8)
    member = bench.member(topic, bench.name())
    for index, message_id in enumerate(ids):
        message = bench.delivers(member, [message_id])[0]
        if index % 2:
            member.ack_through(message)
        member.commit()
        bench.stands(member.position()[0], ids, index + 1)
        bench.stands(member.committed()[0], ids, index + index % 2)


@case("ACK-15", needs=("commit", "groups"))
def test_committed(bench: Bench) -> None:
    """``committed`` is what was stored; where a group starts is stored when it is opened."""
    topic, ids = bench.filled(4)
    member = bench.member(topic, bench.name())
    bench.stands(member.committed()[0], ids, 0)
    late = bench.member(topic, bench.name(), start=LATEST)
    bench.stands(late.committed()[0], ids, 4)
    taken = bench.delivers(member, ids)
    member.ack(taken[0])
    member.commit()
    bench.stands(member.committed()[0], ids, 1)
    with bench.raises(Unsupported):
        bench.reader(topic).committed()


@case("ACK-16", needs=("commit", "groups"))
def test_only_a_seek_goes_back(bench: Bench) -> None:
    """A seek backward takes the stored position back; an ack never does."""
    topic, ids = bench.filled(8)
    member = bench.member(topic, bench.name())
    taken = bench.delivers(member, ids)
    member.ack_through(taken[5])
    member.commit()
    member.ack(taken[1])
    member.ack_through(taken[2])
    member.commit()
    bench.stands(member.committed()[0], ids, 6)
    member.seek(ids[3])
    bench.stands(member.committed()[0], ids, 3)
    late = member.late_acks
    member.ack(taken[6])
    bench.equal(member.late_acks, late + 1)
    member.commit()
    bench.stands(member.committed()[0], ids, 3, "an ack from before the seek counts no more")
    bench.delivers(member, ids[3:])


@case("ACK-19", needs=("durable_groups",))
def test_acks_from_many_threads(bench: Bench) -> None:
    """Acks in any order from eight threads: the stored position is right in the end."""
    topic, ids = bench.filled(400)
    group = bench.name()
    member, taken = members_turn(bench, topic, group, ids)
    left = 390
    shuffled = random.Random(5).sample(taken[:left], left)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(member.ack, shuffled))
        member.commit()
    bench.equal(member.late_acks, 0)
    bench.stands(member.committed()[0], ids, left)
    member.close()
    bench.delivers(bench.member(topic, group), ids[left:])
