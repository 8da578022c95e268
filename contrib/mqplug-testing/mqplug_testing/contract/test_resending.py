"""PRO: what a producer sends again by itself."""

from __future__ import annotations

from contextlib import ExitStack

from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import BROKER, Sender, outage, send_more, settled

case = Registry()


@case("PRO-16", needs=("idempotent_producer", "persistent"), hooks=BROKER, timeout=300, profile="full")
def test_idempotent(bench: Bench) -> None:
    """When answers are lost because the broker dies, what the producers send again is stored once, and in order."""
    topics = [bench.topic() for _ in range(3)]
    with ExitStack() as senders:
        sending = [senders.enter_context(Sender(bench.producer(topic))) for topic in topics]
        for _ in range(2):
            send_more(bench, *sending, count=30)
            with outage(bench):
                pass
        send_more(bench, *sending, count=1)
    for topic, sender in zip(topics, sending, strict=True):
        stored = settled(bench, sender)
        found = {message.id: int(message.value or b"") for message in bench.connect().read(topic)}
        bench.equal(list(found.values()), sorted(set(found.values())), "each once, in order")
        bench.equal(stored - found.keys(), set(), "all that was called stored")
