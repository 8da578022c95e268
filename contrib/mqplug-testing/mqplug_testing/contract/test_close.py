"""CLS: closing."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import permutations
from threading import Event, Thread

from mqplug import EARLIEST, LATEST, Client, Closed, CloseIncomplete, Consumer, Message, Producer
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import outage

case = Registry()


@case("CLS-01")
def test_twice(bench: Bench) -> None:
    """Closing twice, or leaving the ``with`` block of a closed object, raises no error."""
    topic, _ = bench.filled(1)
    client = bench.connect()
    with client, client.producer(topic) as producer, client.consumer(topic, start=EARLIEST) as reader:
        for each in (reader, producer, client):
            each.close()
            each.close()
    bench.equal(len(bench.read(topic)), 1)


def calls_of_client(client: Client, topic: str, group: str) -> list[Callable[[], object]]:
    return [
        client.health, lambda: client.create_topic(topic), lambda: client.partitions(topic),
        lambda: client.producer(topic), lambda: client.consumer(topic, start=EARLIEST), lambda: client.bounds(topic),
        lambda: client.watermarks(topic), lambda: list(client.read(topic)), lambda: client.watermarks([topic]),
        lambda: client.resolve(topic, LATEST),
    ]  # fmt: skip


def calls_of_producer(producer: Producer) -> list[Callable[[], object]]:
    return [
        lambda: producer.send(b"x"), lambda: producer.submit(b"x"), lambda: producer.send_many([b"x"]),
        producer.flush,
    ]  # fmt: skip


def calls_of_consumer(consumer: Consumer, message: Message) -> list[Callable[[], object]]:
    return [
        lambda: consumer.receive(0), lambda: consumer.receive_many(5, 0), lambda: consumer.ack(message),
        lambda: consumer.ack_through(message), lambda: consumer.seek(message.id), lambda: consumer.seek(LATEST),
        consumer.commit, consumer.committed, consumer.position,
        consumer.assignment, lambda: consumer.nack(message),
    ]  # fmt: skip


@case("CLS-02")
def test_everything_after(bench: Bench) -> None:
    """After close every call raises ``Closed``, on the client and on everything that it had opened."""
    topic, _ = bench.filled(2)
    group, client = bench.name(), bench.connect()
    producer = client.producer(topic)
    grouped = client.capabilities.groups
    consumer = client.consumer(topic, group=group) if grouped else client.consumer(topic, start=EARLIEST)
    message = bench.take(consumer, 1)[0]
    client.close()
    calls = calls_of_client(client, topic, group) + calls_of_producer(producer) + calls_of_consumer(consumer, message)
    for call in calls:
        with bench.raises(Closed):
            call()
    bench.equal(list(consumer), [])


@case("CLS-03")
def test_wakes(bench: Bench) -> None:
    """Close wakes a receive that waits in another thread."""
    topic = bench.topic()
    _close_while_receiving(bench, bench.reader(topic), lambda each: each.receive_many(5))
    if bench.has_time_for("receive() without a group"):
        _close_while_receiving(bench, bench.reader(topic), lambda each: each.receive())
    if bench.client.capabilities.groups:
        _close_while_receiving(bench, bench.member(topic, bench.name()), lambda each: each.receive())


def _close_while_receiving(bench: Bench, consumer: Consumer, receive: Callable[[Consumer], object]) -> None:
    begun, ended, found = Event(), Event(), list[object]()

    def wait() -> None:
        begun.set()
        with suppress(Closed):
            found.append(receive(consumer))
        ended.set()

    Thread(target=wait, daemon=True).start()
    begun.wait()
    time.sleep(bench.waiting.nothing)  # until it waits
    began = time.monotonic()
    consumer.close()
    bench.that(ended.wait(bench.patience), "the receive ended")
    bench.that(time.monotonic() - began < 10 * bench.scale, "close was not held up")
    bench.that(not any(found), "and received nothing")


@case(
    "CLS-04", needs=("durable_groups", "persistent"), hooks=("kill", "start"), timeout=300, profile="full", timed=True
)
def test_without_the_broker(bench: Bench) -> None:
    """Close ends within its timeout even if the broker is gone; messages whose acks could not be stored come again."""
    topic, ids = bench.filled(3)
    group, client = bench.name(), bench.connect()
    producer, reader = client.producer(topic), client.consumer(topic, start=EARLIEST)
    member = client.consumer(topic, group=group)
    taken = bench.delivers(member, ids)
    with outage(bench):
        member.ack(taken[0])
        for thing in (producer, reader, member, client):
            began = time.monotonic()
            with suppress(CloseIncomplete), warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # of an object whose close overruns
                thing.close(2)
            took = time.monotonic() - began
            bench.that(took < 2 + 2 * bench.scale, f"{thing!r} took {took:.1f} s to close")
    heir = bench.member(topic, group)
    bench.wait(
        lambda: ids[-1] in heir.receive_many(1, bench.waiting.nothing).ids, "the last message comes again", within=60
    )


@case("CLS-05", needs=("durable_groups",))
def test_unacked(bench: Bench) -> None:
    """Messages that a handler has not acked at close are delivered again."""
    topic, ids = bench.filled(5)
    group = bench.name()
    member = bench.member(topic, group)
    taken = bench.delivers(member, ids[:3])
    member.ack(taken[0])
    member.close()
    bench.delivers(bench.member(topic, group), ids[1:])


@case("CLS-06")
def test_full_prefetch(bench: Bench) -> None:
    """Close with many messages fetched and few received does not hang."""
    topic, ids = bench.filled(2000)
    consumers = [bench.reader(topic, prefetch_bytes=20_000), bench.reader(topic)]
    if bench.client.capabilities.groups:
        consumers.append(bench.member(topic, bench.name()))
    for consumer in consumers:
        bench.delivers(consumer, ids[:1])
        began = time.monotonic()
        consumer.close()
        bench.that(time.monotonic() - began < 10 * bench.scale, "close took too long")


@case("CLS-07")
def test_children(bench: Bench) -> None:
    """Closing a client closes what it opened; closing that afterwards is fine, and other clients stay open."""
    topic, ids = bench.filled(3)
    client, other = bench.connect(), bench.reader(topic)
    producer, reader = client.producer(topic), client.consumer(topic, start=EARLIEST)
    bench.delivers(reader, ids)
    client.close()
    with bench.raises(Closed):
        producer.send(b"x")
    with bench.raises(Closed):
        reader.receive(0)
    reader.close()
    producer.close()
    bench.delivers(other, ids)


@case("CLS-08")
def test_any_order(bench: Bench) -> None:
    """Producer, consumer and client may be closed in any order."""
    topic, ids = bench.filled(2)
    for order in permutations(range(3)):
        client = bench.connect()
        things = (client, client.producer(topic), client.consumer(topic, start=EARLIEST))
        ids.append(things[1].send(b"x", partition=0))
        bench.delivers(things[2], ids[:1])
        for index in order:
            things[index].close()
    bench.equal([message.id for message in bench.read(topic)], ids)


@case("CLS-09")
def test_siblings(bench: Bench) -> None:
    """Closing one consumer does not stop its siblings of the same client."""
    topic, ids = bench.filled(4)
    one, other = bench.reader(topic), bench.reader(topic)
    bench.delivers(one, ids[:2])
    bench.delivers(other, ids[:2])
    one.close()
    bench.delivers(other, ids[2:])
    bench.only_new(other, topic)


@case("CLS-10", hooks=("second_process",))
def test_never_closed(bench: Bench) -> None:
    """A program that ends without closing anything exits by itself, and does not crash."""
    topic, ids = bench.filled(1)
    url = str(bench.harness.second_process)
    command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", ENDS_UNCLOSED, url, topic]
    with bench.away():
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * bench.patience, check=False)
    bench.equal((done.returncode, done.stdout.split()), (0, [str(ids[0])]), done.stderr)


ENDS_UNCLOSED = """
import sys, mqplug
url, topic = sys.argv[1:]
client = mqplug.connect(url)
producer, reader = client.producer(topic), client.consumer(topic, start=mqplug.EARLIEST)
producer.submit(b"x")
print(reader.receive(30).id)
"""


@case("CLS-11")
def test_open_again(bench: Bench) -> None:
    """Every closed object can be opened again at once, many times."""
    topic, ids = bench.filled(2)
    group = bench.name()
    for _ in range(5):
        with bench.connect() as client, client.consumer(topic, start=EARLIEST) as reader:
            bench.delivers(reader, ids)
    if bench.client.capabilities.groups:
        for _ in range(3):
            with bench.connect() as client, client.consumer(topic, group=group) as member:
                bench.delivers(member, ids)


@case("CLS-12", needs=("durable_groups", "ordered", "delete_topic"), timeout=180)
def test_failed(bench: Bench) -> None:
    """A close that cannot store the last acks may report that, but has released everything."""
    (gone, _), (kept, ids), group = bench.filled(3), bench.filled(3), bench.name()
    client = bench.connect()
    member = client.consumer([gone, kept], group=group)
    for message in bench.take(member, 6):
        if message.topic == gone:
            member.ack(message)
    bench.make_gone(gone)
    with suppress(CloseIncomplete):  # a backend may know by then that there is nothing to store
        member.close(10 * bench.scale)
    for call in (member.commit, member.assignment, lambda: member.receive(0)):
        with bench.raises(Closed):
            call()
    member.close()
    bench.delivers(bench.member(kept, group), ids, "another member has its place")
    client.close()
