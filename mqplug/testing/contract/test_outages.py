"""FLT: brokers that stand still, cannot be reached, or die again and again."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from mqplug import EARLIEST, LATEST, Client, Error, MessageId
from mqplug.testing._bench import Bench
from mqplug.testing._logs import logged
from mqplug.testing._registry import Registry
from mqplug.testing.contract.test_faults import BROKER, Sender, check_values, outage, patiently, send_more, settled

case = Registry("FLT")

STANDSTILL = 12.0  # seconds: longer than the session of a member lasts
LINES_A_SECOND = 5.0  # more of them hide what else there is to say


@case(4, needs=("persistent",), hooks=("pause", "unpause"), timeout=300)
def test_paused(bench: Bench) -> None:
    """When the broker stands still for longer than a session lasts, all goes on afterwards and nothing is lost."""
    assert bench.harness.pause is not None and bench.harness.unpause is not None
    _cut_off(bench, bench.harness.pause, bench.harness.unpause)


@case(5, needs=("persistent",), hooks=("cut_network", "heal_network"), timeout=300)
def test_unreachable(bench: Bench) -> None:
    """When the network is away for longer than a session lasts, all goes on afterwards and nothing is lost."""
    assert bench.harness.cut_network is not None and bench.harness.heal_network is not None
    _cut_off(bench, bench.harness.cut_network, bench.harness.heal_network, by=bench.harness.behind_network)


def _cut_off(
    bench: Bench, begin: Callable[[], None], end: Callable[[], None], by: Callable[[], Client] | None = None
) -> None:
    topic, able = bench.topic(), bench.client.capabilities
    client = bench.connect(by)
    consumers = [client.consumer(topic, start=EARLIEST)]
    if able.durable_groups and able.ordered:
        consumers.append(bench.connect(by).consumer(topic, group=bench.name()))
    with Sender(client.producer(topic)) as sender:
        send_more(bench, sender)
        for consumer in consumers:
            bench.take(consumer, 10)
        begin()
        time.sleep(STANDSTILL * bench.scale)
        end()
        send_more(bench, sender)
    stored = settled(bench, sender)
    values = {message.id: message.value or b"" for message in bench.connect().read(topic)}
    bench.equal(stored - values.keys(), set(), "what was stored is there")
    check_values(bench, list(values.values()), len(sender.handles))
    for consumer in consumers:
        patiently(bench, consumer, set(list(values)[10:]))


@case(10, needs=("persistent",), hooks=BROKER, timeout=300)
def test_duplicates(bench: Bench) -> None:
    """Only what was on its way when the broker was killed may be stored twice; where sends are idempotent, nothing."""
    topic, in_doubt = bench.topic(), set[bytes | None]()
    with Sender(bench.producer(topic)) as sender:
        for _ in range(2):
            send_more(bench, sender)
            on_their_way = [handle for handle in sender.handles if not handle.done]
            with outage(bench):
                in_doubt.update(handle.value for handle in on_their_way)
                in_doubt.update(handle.value for handle in list(sender.handles) if not handle.done)
    settled(bench, sender)
    counts = Counter(message.value for message in bench.connect().read(topic))
    twice = {value for value, count in counts.items() if count > 1}
    bench.that(counts, "messages were stored")
    bench.equal(twice if bench.client.capabilities.idempotent_producer else twice - in_doubt, set())


@case(12, needs=("persistent",), hooks=BROKER, timeout=300)
def test_told(bench: Bench) -> None:
    """While the broker is away the log says so, in a few lines and not again and again."""
    topic, ids = bench.filled(3)
    reader = bench.reader(topic, LATEST)
    bench.rests(reader)
    with logged("mqplug", logging.WARNING) as lines:
        began = time.monotonic()
        with outage(bench):
            while time.monotonic() - began < 5 * bench.scale:
                with suppress(Error):
                    reader.receive(0.5)
        sent: MessageId = bench.connect().producer(topic).send(b"after", partition=0)
        patiently(bench, reader, {sent})
        seconds = time.monotonic() - began
    bench.that(sent > ids[-1], "the broker is back")
    bench.that(lines, "the log says that the broker cannot be reached")
    most = 5 + LINES_A_SECOND * seconds
    bench.that(len(lines) <= most, f"{len(lines)} lines in {seconds:.0f} s, such as {lines[-3:]}")
