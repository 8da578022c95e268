"""GRP: handlers that take longer than a backend waits for a sign of life."""

from __future__ import annotations

import time

from mqplug import Log
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_handover import one_each

case = Registry()


@case("GRP-18", needs=("durable_groups", "ordered", "partitions"), timeout=180, profile="full")
def test_slow_handler(bench: Bench) -> None:
    """A handler that takes three times the poll limit keeps its partition, and does not hold up whoever joins."""
    (topic, ids), group, lost = bench.dripped(3), bench.name(), list[Log]()
    client = bench.connect(bench.harness.hasty)
    told = client.capabilities.assignment_events
    slow = client.consumer(topic, group=group, on_revoked=lost.extend if told else None)
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
    """While the caller of its one member is busy, a group takes a second member in, which gets its share."""
    topic, group = bench.topic(partitions=2), bench.name()
    ids = one_each(bench, topic, 2, times=3)
    busy = bench.connect(bench.harness.hasty).consumer(topic, group=group)
    bench.take(busy, 1)
    newcomer = bench.connect(bench.harness.hasty).consumer(topic, group=group)
    share = {each.id for each in bench.take(newcomer, 3)}
    bench.that(share in (set(ids[:3]), set(ids[3:])), "it got one of the partitions")
