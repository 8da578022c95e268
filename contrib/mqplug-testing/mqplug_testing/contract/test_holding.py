"""ACK: what is acked by itself, how much may be in hand, and what a crash leaves."""

from __future__ import annotations

from mqplug import Consumer, MessageId
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.child_process import ChildProcess
from mqplug_testing._case_tools.lone_member import as_lone_member
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("ACK-12", needs=("auto_commit", "ordered", "durable_groups"))
def test_auto_ack(bench: Bench) -> None:
    """``auto_ack`` acks what the caller has seen through, and neither what is in hand nor what was not handed out."""
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
    bench.stands(member.committed()[0], ids, 20, "a commit with nothing new changes nothing")
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
    """With ``max_unacked=1`` a member of those that share a log has one message at a time; others get the rest."""
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
    """After a crash exactly what was not acked comes back, and at most the acks of the last second."""
    topic, ids = bench.dripped(12)
    group = bench.name()
    with bench.away(), ChildProcess(CRASHES, str(bench.harness.second_process), topic, group) as child:
        child.wait_for(10, 2 * bench.patience)
        child.kill()
    bench.equal([MessageId.parse(line) for line in child.lines], ids[:10])
    heir = bench.member(topic, group)
    first = bench.take(heir, 1, within=60)[0].id
    bench.that(first in ids[5:9], "what was stored stays acked, and what was not acked comes")
    bench.delivers(heir, ids[ids.index(first) + 1 :])


# Acks five and waits until that shows; acks three more, is given another two, and waits to be killed.
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
