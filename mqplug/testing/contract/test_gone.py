"""ERR: what a topic that is deleted takes along, and what it does not."""

from __future__ import annotations

from mqplug.testing._case_tools.bench import Bench
from mqplug.testing._case_tools.registry import Registry

case = Registry("ERR")


@case(13, needs=("ordered", "durable_groups", "delete_topic"))
def test_close_after_a_delete(bench: Bench) -> None:
    """Close stores what was acked although a topic of the consumer is gone, and says nothing of that topic's acks."""
    group = bench.name()
    gone, stays = bench.topic(), bench.topic()
    bench.fill(gone, 2)
    ids = bench.fill(stays, 2)
    member = bench.connect().consumer([gone, stays], group=group)
    messages = bench.take(member, 4)
    bench.forget(gone)
    bench.make_gone(gone)
    for message in messages:
        member.ack(message)
    member.close()
    later = bench.fill(stays, 1)
    bench.delivers(bench.member(stays, group), later)
    bench.stands(bench.client.positions(stays, group=group)[0].position, [*ids, *later], 2)
