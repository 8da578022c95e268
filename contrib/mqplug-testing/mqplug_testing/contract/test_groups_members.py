"""GRP: members that are replaced, slow or suspended, deleted groups, and added partitions."""

from __future__ import annotations

import time
from collections import Counter

from mqplug import EARLIEST, LATEST, Consumer, ConsumerBusy, GroupNotFound, Log, MessageId
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_groups_handover import one_each

case = Registry()

PARTITIONS = 4
CHANGES = 9  # three members join, and each leaves and is replaced


@case("GRP-16", needs=("durable_groups", "ordered", "partitions"), timeout=300)
def test_rolling_restart(bench: Bench) -> None:
    """When all members are replaced one after the other, nothing is lost, and partitions do not move needlessly."""
    topic, group, events = bench.topic(PARTITIONS), bench.name(), bench.client.capabilities.assignment_events
    assigned, wanted, came = list[Log](), set[MessageId](), Counter[MessageId]()
    options = {"on_assigned": assigned.extend} if events else {}
    members = [bench.member(topic, group, **options) for _ in range(3)]

    def poll() -> bool:
        for member in members:
            for message in member.receive_many(100, bench.waiting.poll):
                member.ack(message)
                came[message.id] += 1
        return wanted <= came.keys()

    for number in range(3):
        wanted.update(one_each(bench, topic, PARTITIONS, times=3))
        bench.wait(poll, "all came")
        members[number].close()
        members[number] = bench.member(topic, group, **options)
    wanted.update(one_each(bench, topic, PARTITIONS, times=3))
    bench.wait(poll, "all came to the new members")
    bench.equal(came.keys(), wanted)
    if events:
        bench.equal(came.most_common(1)[0][1], 1, "no acked message comes again")
        bench.that(len(assigned) <= CHANGES * PARTITIONS, f"{len(assigned)} partitions were handed over")


@case("GRP-17", needs=("groups", "ordered", "durable_groups"))
def test_delete_group(bench: Bench) -> None:
    """A deleted group is gone: the next member begins at its ``start=``. A group with members stays."""
    client, (topic, ids), group = bench.client, bench.dripped(4), bench.name()
    bench.member(bench.topic(), bench.name())  # of another topic
    member = bench.member(topic, group)
    for message in bench.delivers(member, ids)[:2]:
        member.ack(message)
    member.commit()
    with bench.raises(ConsumerBusy):
        client.delete_group(group)
    with bench.raises(ConsumerBusy):
        client.reset_group(group, topic, EARLIEST)
    (known,) = client.groups(topic)
    bench.equal(known.name, group)
    bench.that(known.members in {None, 1}, f"{known.members} members")
    member.close()
    bench.stands(client.positions(topic, group=group)[0].position, ids, 2)
    _delete_and_look(bench, topic, group)
    again = bench.member(topic, group, start=LATEST)
    bench.only_new(again, topic)
    again.close()
    _delete_and_look(bench, topic, group)
    bench.delivers(bench.member(topic, group), ids)


def _delete_and_look(bench: Bench, topic: str, group: str) -> None:
    bench.client.delete_group(group)
    bench.equal(bench.client.groups(topic), [])
    with bench.raises(GroupNotFound):
        bench.client.positions(topic, group=group)
    with bench.raises(GroupNotFound):
        bench.client.delete_group(group)
    with bench.raises(GroupNotFound):
        bench.member(topic, group, must_exist=True)


@case("GRP-20", needs=("add_partitions", "ordered", "durable_groups"), timeout=180, profile="full")
def test_added_partitions(bench: Bench) -> None:
    """Existing and new members read added partitions from their beginning, wherever the group began."""
    topic, group = bench.topic(), bench.name()
    bench.fill(topic, 3)
    first = bench.member(topic, group, start=LATEST)
    unacked = bench.only_new(first, topic)
    first.close()
    wanted = {unacked, *_grow(bench, topic, 3)}
    member, came = bench.member(topic, group, start=LATEST), set[MessageId]()

    def poll() -> bool:  # a member that takes its partitions again gets the unacked messages again
        came.update(member.receive_many(100, bench.waiting.poll).ids)
        return wanted <= came

    bench.wait(poll, "all came to a new member", seen=lambda: f"{wanted - came} are missing")
    wanted |= _grow(bench, topic, 4)
    bench.wait(poll, "all came to the same member", within=60, seen=lambda: f"{wanted - came} are missing")
    bench.equal(came, wanted)


def _grow(bench: Bench, topic: str, total: int) -> set[MessageId]:
    """Add partitions up to a total, and return the ids of messages sent to the new ones."""
    there = len(bench.client.partitions(topic))
    bench.client.add_partitions(topic, total)
    bench.wait(lambda: len(bench.client.partitions(topic)) == total, "the partitions are there")
    with bench.producer(topic) as producer:
        return {producer.send(b"new", partition=number) for number in range(there, total) for _ in range(2)}


@case("GRP-18", needs=("durable_groups", "ordered", "partitions"), timeout=180, profile="full")
def test_slow_handler(bench: Bench) -> None:
    """A handler that takes three times the poll limit keeps its partition, and does not delay a member that joins."""
    (topic, ids), group, lost = bench.dripped(3), bench.name(), list[Log]()
    client = bench.connect(bench.harness.hasty)
    events = client.capabilities.assignment_events
    slow = client.consumer(topic, group=group, on_revoked=lost.extend if events else None)
    [message] = bench.delivers(slow, ids[:1])
    returns = time.monotonic() + 3 * bench.harness.poll_limit * bench.scale
    _joins(bench)
    time.sleep(max(0.0, returns - time.monotonic()))  # the handler is at work
    slow.ack(message)
    slow.commit()
    bench.equal((slow.late_acks, lost), (0, []), "it kept its partition")
    bench.stands(slow.committed()[0], ids, 1)
    bench.delivers(slow, ids[1:], "nothing came again")
    bench.only_new(slow, topic)


def _joins(bench: Bench) -> None:
    """Check that a second member gets its share of a group while the caller of the first one is busy."""
    topic, group = bench.topic(partitions=2), bench.name()
    ids = one_each(bench, topic, 2, times=3)
    busy = bench.connect(bench.harness.hasty).consumer(topic, group=group)
    bench.take(busy, 1)
    newcomer = bench.connect(bench.harness.hasty).consumer(topic, group=group)
    share = {each.id for each in bench.take(newcomer, 3)}
    bench.that(share in (set(ids[:3]), set(ids[3:])), "it got one of the partitions")


TAKES_OVER_S = 120.0  # until a backend notices that a member is suspended


STOPPED = ("durable_groups", "ordered", "persistent")


@case("GRP-41", needs=STOPPED, hooks=("second_process",), timeout=400, profile="full")
def test_stopped_member(bench: Bench) -> None:
    """A member that is suspended while another takes over and commits moves nothing back when it resumes."""
    _resumes(bench, beside_the_heir=True)


@case("GRP-42", needs=STOPPED, hooks=("second_process",), timeout=400, profile="full")
def test_stopped_for_long(bench: Bench) -> None:
    """A suspended member moves nothing back either if the one that took over has left before it resumes."""
    _resumes(bench, beside_the_heir=False)


def _resumes(bench: Bench, *, beside_the_heir: bool) -> None:
    topic, ids = bench.dripped(10)
    group, within = bench.name(), TAKES_OVER_S * bench.scale
    with ChildProcess(SUSPENDS_ITSELF, str(bench.harness.second_process), topic, group) as child:
        child.wait_for(5, within)
        child.wait_until_stopped()
        bench.equal([MessageId.parse(line) for line in child.lines], ids[:5])
        heir = _takes_over(bench, topic, group, ids)
        if not beside_the_heir:
            heir.close()
        child.resume()
        child.wait_for(6, within)
        bench.that(
            child.lines[5] in {"committed", "NotAssigned"}, f"the commit for the lost partition was {child.lines[5]}"
        )
        _is_at_the_end(bench, topic, group, ids)
        if beside_the_heir:
            bench.rests(heir)
            heir.close()
        _is_at_the_end(bench, topic, group, ids)
        sent = bench.fill(topic, 1, begin=10)
        child.wait_for(9, within)
        late, losses = map(int, child.lines[6].split())
        if bench.client.capabilities.assignment_events:
            bench.equal(late, 2, "acks for the lost partition are counted")
            bench.equal(losses, 1, "the loss was reported once")
        bench.equal(child.lines[7], str(sent[0]), "it joins again, and gets the next message")
    bench.stands(bench.client.positions(topic, group=group)[0].position, [*ids, *sent], 11)


def _takes_over(bench: Bench, topic: str, group: str, ids: list[MessageId]) -> Consumer:
    """Let another member receive the uncommitted messages and commit them all."""
    heir = bench.member(topic, group, timeout=TAKES_OVER_S * bench.scale)
    taken = bench.take(heir, 1, within=TAKES_OVER_S)
    bench.that(taken[0].id in ids[:4], "the uncommitted messages come to the heir")
    left = ids[ids.index(taken[0].id) + 1 :]
    taken += bench.delivers(heir, left)
    heir.ack_through(taken[-1])
    heir.commit()
    return heir


def _is_at_the_end(bench: Bench, topic: str, group: str, ids: list[MessageId]) -> None:
    bench.stands(bench.client.positions(topic, group=group)[0].position, ids, len(ids), "the group did not go back")


# Receives five, acks three, and suspends itself; then commits, and acks the other two once it has lost the partition.
# Another thread may report the loss a moment earlier. A message that comes until then, after it joined again, is kept.
SUSPENDS_ITSELF = """
import os, signal, sys, mqplug
url, topic, group = sys.argv[1:]
with mqplug.connect(url) as client:
    events, given, lost, following = client.capabilities.assignment_events, [], [], None
    callbacks = {"on_assigned": given.extend, "on_revoked": lost.extend} if events else {}
    with client.consumer(topic, group=group, **callbacks) as member:
        taken = [member.receive(60) for _ in range(5)]
        for message in taken[:3]:
            member.ack(message)
        for message in taken:
            print(message.id)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            member.commit(60)
            print("committed")
        except mqplug.Error as error:
            print(type(error).__name__)
        while events and len(given) < 2 and (not lost or member.state()):
            following = member.receive(0.1)
        for message in taken[3:]:
            member.ack(message)
        following = following or member.receive(120)
        print(member.late_acks, len(lost))
        print(following.id)
        member.ack(following)
        member.commit(60)
        print("stored")
        sys.stdin.read()
"""
