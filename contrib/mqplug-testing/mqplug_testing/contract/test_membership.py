"""GRP: groups whose members are replaced, groups that are deleted, and topics that grow under them."""

from __future__ import annotations

from collections import Counter

from mqplug import EARLIEST, LATEST, ConsumerBusy, GroupNotFound, Log, MessageId
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_handover import one_each

case = Registry()

PARTITIONS = 4
CHANGES = 9  # three members join, and each leaves and is replaced


@case("GRP-16", needs=("durable_groups", "ordered", "partitions"), timeout=300)
def test_rolling_restart(bench: Bench) -> None:
    """When all members are replaced one after the other nothing is lost, and no more changes hands than has to."""
    topic, group, told = bench.topic(PARTITIONS), bench.name(), bench.client.capabilities.assignment_events
    assigned, wanted, came = list[Log](), set[MessageId](), Counter[MessageId]()
    options = {"on_assigned": assigned.extend} if told else {}
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
    if told:
        bench.equal(came.most_common(1)[0][1], 1, "what was acked never comes again")
        bench.that(len(assigned) <= CHANGES * PARTITIONS, f"{len(assigned)} partitions were handed over")


@case("GRP-17", needs=("groups", "ordered", "durable_groups"))
def test_delete_group(bench: Bench) -> None:
    """A group that is deleted is gone: the next to open it begins at its ``start=``. One with members stays."""
    client, (topic, ids), group = bench.client, bench.dripped(4), bench.name()
    bench.member(bench.topic(), bench.name())  # is of another topic
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
    """A group reads partitions that were added from their beginning, wherever it began; so do members that live."""
    topic, group = bench.topic(), bench.name()
    bench.fill(topic, 3)
    first = bench.member(topic, group, start=LATEST)
    bench.only_new(first, topic)
    first.close()
    sent = _grow(bench, topic, 3)
    member = bench.member(topic, group, start=LATEST)
    came = {message.id for message in bench.take(member, 1 + len(sent))}
    bench.equal(came & sent, sent)
    bench.equal({each.log.partition for each in came - sent}, {0})
    sent = _grow(bench, topic, 4)
    bench.equal({message.id for message in bench.take(member, len(sent), within=60)}, sent)


def _grow(bench: Bench, topic: str, total: int) -> set[MessageId]:
    """Have so many partitions; the ids of messages that are sent to the new ones."""
    there = len(bench.client.partitions(topic))
    bench.client.add_partitions(topic, total)
    bench.wait(lambda: len(bench.client.partitions(topic)) == total, "the partitions are there")
    with bench.producer(topic) as producer:
        return {producer.send(b"new", partition=number) for number in range(there, total) for _ in range(2)}
