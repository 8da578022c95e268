"""ACK: acks by a call and by ``auto_ack``, the bound of unacked messages, and the gaps between acks."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from mqplug import LATEST, Closed, Consumer, InvalidMessageId, Message, MessageId, Unsupported
from mqplug_testing._case_tools.bench import Bench, as_lone_member
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_ack_returning import AWAY, again

case = Registry()


def members_turn(bench: Bench, topic: str, group: str, ids: list[MessageId]) -> tuple[Consumer, list[Message]]:
    """Return a member of the group that has received these messages, and the messages."""
    member = bench.member(topic, group)
    return member, bench.delivers(member, ids)


@case("ACK-01", needs=("durable_groups",))
def test_acked_stays_away(bench: Bench) -> None:
    """After a clean close, acked messages are not delivered again."""
    topic, ids = bench.filled(6)
    group = bench.name()
    member, taken = members_turn(bench, topic, group, ids)
    for message in taken[:4]:
        member.ack(message)
    member.close()
    bench.delivers(bench.member(topic, group), ids[4:])


@case("ACK-02", needs=("durable_groups",))
def test_unacked_comes_back(bench: Bench) -> None:
    """After a clean close, messages that were received but not acked are delivered again."""
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
    """Of messages acked out of order, only the gaps come again after a clean close."""
    topic, ids = bench.topic(), list[MessageId]()
    for number in range(10):  # one at a time: a backend may store and return whole batches
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
    """``ack_through`` acks a message and all earlier ones that this consumer received."""
    topic, ids = bench.filled(8)
    group = bench.name()
    member, taken = members_turn(bench, topic, group, ids)
    member.ack_through(taken[4])
    member.close()
    bench.delivers(bench.member(topic, group), ids[5:])


@case("ACK-05", needs=("groups",))
def test_ack_twice(bench: Bench) -> None:
    """Acking a message twice, before or after a commit, raises no error and is counted."""
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
    """An ack of a message that this consumer never received raises ``InvalidMessageId``, and acks nothing."""
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
    """An ack after close raises ``Closed``; without a group it raises ``Unsupported``."""
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
    """After acks and a commit the stored position is exactly there, and a new member begins there."""
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
    """The committed position is never beyond the delivered messages, nor beyond the acked ones."""
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
    """``committed`` returns the stored position; a group's beginning is stored when it is opened."""
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
    """A seek backward moves the stored position back; an ack never does."""
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
    bench.stands(member.committed()[0], ids, 3, "an ack from before the seek no longer counts")
    bench.delivers(member, ids[3:])


@case("ACK-19", needs=("durable_groups",))
def test_acks_from_many_threads(bench: Bench) -> None:
    """With acks from eight threads in any order, the final stored position is right."""
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


@case("ACK-12", needs=("auto_commit", "ordered", "durable_groups"))
def test_auto_ack(bench: Bench) -> None:
    """``auto_ack`` acks a message when the next one is requested: not the current one, nor those not handed out."""
    topic, ids = bench.dripped(7)
    group = bench.name()
    member = bench.member(topic, group, auto_ack=True)
    bench.delivers(member, ids[:3])
    member.close()
    heir = bench.member(topic, group, auto_ack=True)
    bench.delivers(heir, ids[2:4])
    heir.commit()
    bench.stands(heir.committed()[0], ids, 3)
    heir.close()
    bench.delivers(bench.member(topic, group), ids[3:])


@case("ACK-17", needs=("ordered", "durable_groups"))
def test_acks_of_a_batch(bench: Bench) -> None:
    """The messages of a batch are acked one by one, as messages or by their ids, and each ack counts once."""
    topic, ids = bench.filled(20)
    member = bench.member(topic, bench.name())
    batch = [*bench.delivers(member, ids[:1]), *member.receive_many(19, 0)]
    while len(batch) < len(ids):
        batch += member.receive_many(19, bench.patience)
    for message in reversed(batch):
        member.ack(message.id if message.id.coordinates[-1] % 2 else message)
    bench.equal(member.late_acks, 0)
    member.commit()
    bench.stands(member.committed()[0], ids, 20)
    member.commit()
    bench.stands(member.committed()[0], ids, 20, "a commit without new acks changes nothing")
    for message in batch:
        member.ack(message)
    bench.equal(member.late_acks, 20)


@case("ACK-20", needs=("ordered", "groups"))
def test_bounded(bench: Bench) -> None:
    """With ``max_unacked=1`` the next message of a partition comes after the ack of the last one, and then at once."""
    as_lone_member(bench, _one_at_a_time, max_unacked=1)


def _one_at_a_time(bench: Bench, topic: str, member: Consumer) -> None:
    ids = bench.fill(topic, 3)
    for number, message_id in enumerate(ids):
        [message] = bench.delivers(member, [message_id])
        bench.rests(member)
        if number < 2:
            bench.equal([(each.waits_for, each.blocked_by) for each in member.state()], [("unacked", message_id)])
        member.ack(message)
    bench.only_new(member, topic)


@case("ACK-20-shared", needs=("shared", "groups"))
def test_bounded_among_many(bench: Bench) -> None:
    """With ``max_unacked=1`` a member that shares its log has one message at a time; other members get the rest."""
    topic, ids = bench.dripped(3)
    group = bench.name()
    careful = bench.member(topic, group, mode="shared", max_unacked=1)
    [message] = bench.delivers(careful, ids[:1])
    bench.rests(careful)
    other = bench.member(topic, group, mode="shared")
    bench.delivers(other, ids[1:])
    careful.ack(message)
    bench.only_new(careful, topic)


@case("ACK-21", needs=("durable_groups", "persistent"), hooks=("second_process",), timeout=180, profile="full")
def test_crash(bench: Bench) -> None:
    """After a crash exactly the unacked messages come again, plus at most those acked in the last second."""
    topic, ids = bench.dripped(12)
    group = bench.name()
    with bench.away(), ChildProcess(CRASHES, str(bench.harness.second_process), topic, group) as child:
        child.wait_for(10, 2 * bench.patience)
        child.kill()
    bench.equal([MessageId.parse(line) for line in child.lines], ids[:10])
    heir = bench.member(topic, group)
    first = bench.take(heir, 1, within=60)[0].id
    bench.that(first in ids[5:9], "stored acks hold, and the unacked messages come")
    bench.delivers(heir, ids[ids.index(first) + 1 :])


# Acks five and waits until that is committed; acks three more, receives another two, and waits to be killed.
CRASHES = """
import sys, time, mqplug
url, topic, group = sys.argv[1:]
with mqplug.connect(url) as client, client.consumer(topic, group=group) as member:
    for number, message in enumerate(member):
        if number < 8:
            member.ack(message)
        while number == 4 and member.committed()[0].precedes(message.id):
            time.sleep(0.05)
        print(message.id)
        if number == 9:
            time.sleep(600)
"""


UNBOUNDED = 1_000_000  # acked ranges: the number of a backend that declares no bound
RUNS = 1000


@case("ACK-29", needs=("ack_timeout", "nack", "ordered", "durable_groups"), timeout=180, profile="full")
def test_acked_by_the_loser(bench: Bench) -> None:
    """An ack by a member that lost the partition is ignored: if the new holder returns the message, it comes again."""
    topic, ids = bench.dripped(2)
    group = bench.name()
    slow = bench.member(topic, group, max_processing=AWAY)
    lost = bench.delivers(slow, ids)
    bench.wait(lambda: not slow.assignment(), "the slow member lost its partition")
    other = bench.member(topic, group)
    taken = bench.delivers(other, ids)
    for message in lost:
        slow.ack(message)
    slow.commit()
    other.nack(taken[0], delay=0)
    other.ack(again(bench, other, ids[0], attempt=2))
    other.close()
    bench.delivers(bench.member(topic, group), ids[1:], "its holder had not acked it")


@case("ACK-29-shared", needs=("ack_timeout", "nack", "shared"), timeout=180, profile="full")
def test_acked_by_the_loser_of_a_message(bench: Bench) -> None:
    """An ack by a member that lost the message is ignored: if the other one returns it, it comes again."""
    topic, ids = bench.dripped(1)
    group = bench.name()
    slow = bench.member(topic, group, mode="shared", max_processing=0.5)
    other = bench.member(topic, group, mode="shared")
    [lost] = bench.delivers(slow, ids)
    [taken] = bench.delivers(other, ids)
    slow.ack(lost)
    slow.commit()
    other.nack(taken, delay=0)
    [back] = bench.delivers(other, ids)
    bench.that(back.attempt > taken.attempt, "it is another attempt")
    slow.close()
    other.close()
    heir = bench.member(topic, group, mode="shared")
    heir.ack(bench.delivers(heir, ids, "the other had not acked it either")[0])
    bench.only_new(heir, topic)


@case("ACK-30", needs=("durable_groups", "individual_ack", "ordered"), timeout=300)
def test_many_gaps(bench: Bench) -> None:
    """As many runs of acked messages as the backend declares survive a close; a thousand do if it declares no bound."""
    able = bench.client.capabilities
    runs = RUNS
    if able.acked_ranges_max < UNBOUNDED:
        runs = min(able.acked_ranges_max, bench.sized(quick=RUNS, full=100 * RUNS))
    topic, ids = bench.dripped(2 * runs) if able.ack_granularity == "entry" else bench.filled(2 * runs)
    group = bench.name()
    member = bench.member(topic, group)
    odd = 0
    for number in range(2 * runs):
        [message] = bench.take(member, 1)
        if number % 2:
            member.ack(message)
            odd += message.id == ids[number]
    bench.equal(odd, runs)
    member.close()
    heir = bench.member(topic, group)
    came, gaps = [message.id for message in bench.take(heir, runs)], set(ids[::2])
    bench.equal([each for each in came if each not in gaps], [], "acked messages do not come again")
    bench.that(came == ids[::2], "all gaps came, in order")
    bench.only_new(heir, topic)
