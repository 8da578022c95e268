"""ERR: what a topic that is deleted takes along, and what it does not."""

from __future__ import annotations

from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("ERR-13", needs=("ordered", "durable_groups", "delete_topic"))
def test_close_after_a_delete(bench: Bench) -> None:
    """Close stores what was acked although a topic of the consumer is gone, and says nothing of that topic's acks."""
    group = bench.name()
    before, gone, after = sorted(bench.topic() for _ in range(3))  # whichever is stored first, one is stored after it
    ids = {topic: bench.fill(topic, 2) for topic in (before, gone, after)}
    member = bench.connect().consumer([before, gone, after], group=group)
    messages = bench.take(member, 6)
    bench.forget(gone)
    bench.make_gone(gone)
    for message in messages:
        member.ack(message)
    member.close()
    for topic in (before, after):
        later = bench.fill(topic, 1)
        bench.delivers(bench.member(topic, group), later)
        bench.stands(bench.client.positions(topic, group=group)[0].position, [*ids[topic], *later], 2)
