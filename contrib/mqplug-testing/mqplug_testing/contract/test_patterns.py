"""CON: topics that are chosen by a pattern."""

from __future__ import annotations

import re

from mqplug import EARLIEST, LATEST, Consumer, Message, TopicNotFound, matching
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

JOIN_S = 10.0  # until a new topic is read


@case("CON-21", needs=("topic_patterns",), timeout=120)
def test_new_topics_join(bench: Bench) -> None:
    """A pattern's topics are read, and those that are created later from their first message; no others are."""
    stem = bench.name()
    pattern = matching(re.escape(stem) + "[.][a-z]+")
    with bench.raises(TopicNotFound):
        list(bench.client.read(pattern))
    there, later, beside = (bench.owned(stem + end) for end in (".old", ".new", ".new.not"))
    bench.admin.create_topic(there)
    before = bench.fill(there, 2)
    reader = bench.client.consumer(pattern, start=EARLIEST)
    fresh = bench.client.consumer(pattern, start=LATEST)
    bench.delivers(reader, before)
    other = bench.connect(bench.harness.admin)
    for topic in (beside, later):
        other.create_topic(topic)
    bench.fill(beside, 2)
    ids = bench.fill(later, 3)
    for consumer in (reader, fresh):
        found = _arriving(bench, consumer, 3)
        bench.equal([message.id for message in found], ids, "a new topic is read from its first message")
    bench.equal({message.id for message in bench.client.read(pattern)}, {*before, *ids}, "read takes what there is")
    bench.delivers(reader, bench.fill(there, 1), "the others go on")


@case("CON-22", needs=("topic_patterns", "delete_topic", "ordered", "durable_groups"), timeout=180)
def test_topics_come_and_go(bench: Bench) -> None:
    """A member goes on undisturbed when a topic of its pattern comes or goes, and its group stands in the new one."""
    stem, group = bench.name(), bench.name()
    pattern = matching(re.escape(stem) + ".*")
    there, later = (bench.owned(stem + end) for end in (".old", ".new"))
    bench.admin.create_topic(there)
    member = bench.client.consumer(pattern, group=group)
    ids = bench.fill(there, 3)
    in_hand = bench.delivers(member, ids)
    bench.admin.create_topic(later)
    new = bench.fill(later, 2)
    found = _arriving(bench, member, 2)
    bench.equal([message.id for message in found], new, "what was in hand is not repeated")
    for message in (*in_hand, found[0]):
        member.ack(message)
    member.commit()
    bench.equal(member.late_acks, 0, "acks of what was in hand count")
    bench.stands(bench.client.positions(later, group=group)[0].position, new, 1)
    member.close()
    again = bench.connect().consumer(pattern, group=group)
    bench.delivers(again, new[1:])
    bench.forget(later)
    bench.make_gone(later)
    bench.wait(lambda: not again.receive(0.1) and len(again.assignment()) == 1, "a topic that is gone leaves")
    bench.delivers(again, bench.fill(there, 2), "the others go on")


def _arriving(bench: Bench, consumer: Consumer, count: int) -> list[Message]:
    """Return as many messages, which come once the consumer has found their topic."""
    found: list[Message] = []

    def came() -> bool:
        while (message := consumer.receive(0)) is not None:
            found.append(message)
        return len(found) >= count

    bench.wait(came, f"{count} messages of a new topic came", within=JOIN_S + bench.patience)
    return found
