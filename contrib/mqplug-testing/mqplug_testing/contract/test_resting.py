"""CON: consumers that rest, and those that leave no trace."""

from __future__ import annotations

from mqplug import LATEST, Consumer, NotAssigned
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.lone_member import as_lone_member
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("CON-14", needs=("groups", "durable_groups"))
def test_no_trace(bench: Bench) -> None:
    """Whoever reads without a group leaves no group behind, open or closed; a member's group is listed."""
    topic, ids = bench.filled(3)
    reader = bench.reader(topic)
    bench.delivers(reader, ids)
    reader.seek(ids[1])
    bench.read(topic)
    bench.equal(bench.client.groups(topic), [])
    reader.close()
    bench.equal(bench.client.groups(topic), [])
    group = bench.name()
    member = bench.member(topic, group, start=LATEST)
    bench.only_new(member, topic)
    bench.equal([each.name for each in bench.client.groups(topic)], [group])


@case("CON-16", needs=("pause_resume", "partitions"))
def test_pause(bench: Bench) -> None:
    """A paused partition delivers nothing while the others go on; resumed, it goes on where it was."""
    able = bench.client.capabilities
    if members := able.groups and able.ordered:
        as_lone_member(bench, _pause, partitions=2)
    if not members or bench.profile != "quick":
        topic = bench.topic(partitions=2)
        _pause(bench, topic, bench.reader(topic))


def _pause(bench: Bench, topic: str, consumer: Consumer) -> None:
    ids = bench.fill(topic, 6, partition=0)
    bench.delivers(consumer, ids[:2])
    consumer.pause(0)
    ids += bench.fill(topic, 2, partition=0)
    others = bench.fill(topic, 3, partition=1)
    bench.delivers(consumer, others, "the other partition goes on")
    bench.rests(consumer)
    bench.equal([each.waits_for for each in consumer.state() if each.log.partition == 0], ["paused"])
    consumer.seek(ids[1])
    bench.rests(consumer)
    consumer.resume(0)
    bench.delivers(consumer, ids[1:])
    consumer.pause()
    bench.rests(consumer)
    consumer.resume()
    bench.only_new(consumer, topic, partition=1)
    with bench.raises(NotAssigned):
        consumer.pause(7)
