"""FLT: killed brokers and processes, torn writes, and copied stores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Self

from mqplug import EARLIEST, LATEST, Consumer, Error, Message, MessageId, Producer, Record, SendHandle
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import ChildProcess
from mqplug_testing._case_tools.registry import Registry

case = Registry()

RECOVERY = 60.0  # seconds in which clients reconnect to a broker that was killed and restarted
BROKER = ("kill", "start")
OUTAGE = (*BROKER, "outage")


@contextmanager
def outage(bench: Bench) -> Iterator[None]:
    """Kill the broker, and start it again at the end."""
    assert bench.harness.kill is not None and bench.harness.start is not None
    bench.harness.kill()
    try:
        yield
    finally:
        bench.harness.start()


class Sender:
    """Sends 0, 1, 2 ... from a thread of its own, whatever happens."""

    def __init__(self, producer: Producer) -> None:
        self.handles: list[SendHandle] = []
        self._producer = producer
        self._enough = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._enough.wait(0.002):
            with suppress(Error):  # a full queue
                value = b"%d" % len(self.handles)
                self.handles.append(self._producer.submit(value, partition=0, when_full="raise"))

    def sent(self) -> list[tuple[bytes, SendHandle]]:
        """Return each sent value with its handle."""
        return [(b"%d" % number, handle) for number, handle in enumerate(list(self.handles))]

    @property
    def stored(self) -> int:
        """The number of messages that were stored."""
        return sum(handle.done and handle.error is None for handle in self.handles)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()


def send_more(bench: Bench, *senders: Sender, count: int = 50) -> None:
    """Wait until each sender has stored `count` more messages."""
    wanted = [sender.stored + count for sender in senders]

    def done() -> bool:
        return all(sender.stored >= least for sender, least in zip(senders, wanted, strict=True))

    bench.wait(done, "messages are stored", within=RECOVERY)


def settled(bench: Bench, sender: Sender) -> set[MessageId]:
    """Wait until each message has an outcome, and return the ids of the stored ones."""
    bench.wait(lambda: all(handle.done for handle in sender.handles), "each has an outcome", within=RECOVERY)
    return {handle.result(0) for handle in sender.handles if handle.error is None}


def patiently(bench: Bench, consumer: Consumer, wanted: set[MessageId]) -> list[Message]:
    """Receive until all these came, and try again after each retryable error."""
    taken: list[Message] = []

    def complete() -> bool:
        try:
            taken.extend(consumer.receive_many(100, bench.waiting.nothing))
        except Error as error:
            bench.that(error.retryable, f"{error!r} is retryable, while the broker is away")
        return wanted <= {message.id for message in taken}

    bench.wait(complete, "all came after the broker was back", within=RECOVERY)
    return taken


@case("FLT-01", needs=("persistent",), hooks=BROKER, timeout=300, profile="full")
def test_killed_while_producing(bench: Bench) -> None:
    """When the broker is killed during sends, messages reported as stored are there, under their ids, in order."""
    topic = bench.topic()
    with Sender(bench.producer(topic)) as sender:
        send_more(bench, sender)
        with outage(bench):
            pass
        send_more(bench, sender)
    settled(bench, sender)
    stored = {handle.result(0): value for value, handle in sender.sent() if handle.error is None}
    found = {message.id: message.value for message in bench.connect().read(topic)}
    bench.equal({each: found.get(each) for each in stored}, stored, "the stored messages are there")
    check_values(bench, [value or b"" for value in found.values()], len(sender.handles))


def check_values(bench: Bench, values: list[bytes], sent: int) -> None:
    """Check that these values were sent, in this order, and are there once if the backend promises that."""
    numbers = [int(value) for value in values]
    first_of_each = list(dict.fromkeys(numbers))
    bench.equal(first_of_each, sorted(first_of_each), "the order is kept")
    bench.that(set(first_of_each) <= set(range(sent)), "nothing was invented")
    if bench.client.capabilities.idempotent_producer:
        bench.equal(len(numbers), len(first_of_each), "nothing is stored twice")


@case("FLT-02", needs=("persistent",), hooks=BROKER, timeout=300, profile="full")
def test_killed_while_consuming(bench: Bench) -> None:
    """The broker is killed while messages are received: nothing is lost, and no acked message comes again."""
    topic = bench.topic()
    ids = bench.filler(topic).send_many([Record(bytes(500), partition=0) for _ in range(400)])
    reader = bench.reader(topic, prefetch_bytes=20_000)
    bench.delivers(reader, ids[:50])
    member = (
        bench.member(topic, bench.name(), prefetch_bytes=20_000) if bench.client.capabilities.durable_groups else None
    )
    if member is not None:
        member.ack_through(bench.delivers(member, ids[:50])[-1])
        member.commit()
    with outage(bench):
        pass
    bench.equal([message.id for message in patiently(bench, reader, set(ids[50:]))], ids[50:])
    if member is not None:
        again = {message.id for message in patiently(bench, member, set(ids[50:]))}
        bench.equal(again & set(ids[:50]), set(), "acked messages do not come again")


@case("FLT-03", needs=("persistent",), hooks=BROKER, timeout=300, profile="full")
def test_idle_during_an_outage(bench: Bench) -> None:
    """A consumer that waits while the broker is killed and restarted gets the messages sent afterwards."""
    topic = bench.topic()
    consumers = [bench.reader(topic, LATEST)]
    if bench.client.capabilities.durable_groups:
        consumers.append(bench.member(topic, bench.name(), start=LATEST))
    for consumer in consumers:
        bench.rests(consumer)
    with outage(bench):
        pass
    sent = bench.connect().producer(topic).send(b"after", partition=0)
    for consumer in consumers:
        bench.equal([message.id for message in patiently(bench, consumer, {sent})], [sent])


@case("FLT-06", needs=("persistent",), hooks=("second_process",))
def test_producer_killed(bench: Bench) -> None:
    """A process that sends is killed: every message that it had an id for is there, once, under that id."""
    topic = bench.topic()
    with bench.away(), ChildProcess(SENDS_ONE_BY_ONE, str(bench.harness.second_process), topic) as child:
        child.wait_for(50, RECOVERY * bench.scale)
        child.kill()
    stored = [MessageId.parse(line) for line in child.lines]
    found = bench.read(topic)
    bench.equal([message.id for message in found][: len(stored)], stored)
    bench.equal([message.value for message in found], [b"%d" % number for number in range(len(found))])
    bench.that(len(found) <= len(stored) + 1, "besides them at most the one in flight is there")
    bench.that(bench.fill(topic, 1)[0] > found[-1].id, "the next id is higher")


SENDS_ONE_BY_ONE = """
import itertools, sys, mqplug
url, topic = sys.argv[1:]
with mqplug.connect(url) as client, client.producer(topic) as producer:
    for number in itertools.count():
        print(producer.send(b"%d" % number, partition=0))
"""


@case("FLT-07", needs=("persistent",), hooks=("second_process",))
def test_killed_in_a_batch(bench: Bench) -> None:
    """A process that sends batches is killed: the stored messages have no holes, and include all reported ones."""
    topic = bench.topic()
    with bench.away(), ChildProcess(SENDS_BATCHES, str(bench.harness.second_process), topic) as child:
        child.wait_for(20, RECOVERY * bench.scale)
        child.kill()
    values = [message.value for message in bench.read(topic)]
    bench.equal(values, [b"%d" % number for number in range(len(values))])
    bench.that(len(values) >= int(child.lines[-1]), "all messages reported as stored are there")


SENDS_BATCHES = """
import itertools, sys, mqplug
url, topic = sys.argv[1:]
with mqplug.connect(url) as client, client.producer(topic) as producer:
    for first in itertools.count(step=300):
        producer.send_many([mqplug.Record(b"%d" % number, partition=0) for number in range(first, first + 300)])
        print(first + 300)
"""


@case("FLT-13", needs=("persistent",), hooks=OUTAGE, timeout=300, profile="full", timed=True)
def test_while_it_is_away(bench: Bench) -> None:
    """While the broker is away every call ends within its timeout, with a retryable error; then all work again."""
    topic, ids = bench.filled(3)
    reader, producer = bench.reader(topic), bench.producer(topic)
    bench.delivers(reader, ids)
    with outage(bench):
        for name, call in calls(bench, topic, producer).items():
            error, took = _outcome(call, 2)
            bench.that(error is not None and error.retryable, f"{name} raised {error!r}")
            bench.that(took < 2 + 2 * bench.scale, f"{name} with a timeout of 2 s took {took:.1f} s")
        error, took = _outcome(reader.receive, 1)
        bench.that(error is None or error.retryable, f"receive raised {error!r}")
        bench.that(took < 1 + 2 * bench.scale, f"receive with a timeout of 1 s took {took:.1f} s")
    sent = bench.connect().producer(topic).send(b"after", partition=0)
    patiently(bench, reader, {sent})


def calls(bench: Bench, topic: str, producer: Producer) -> dict[str, Callable[[float], object]]:
    """Return the calls that need the broker, as functions of a timeout."""
    client, name = bench.client, bench.name()
    found: dict[str, Callable[[float], object]] = {
        "health": client.health, "watermarks": lambda t: client.watermarks(topic, timeout=t),
        "bounds": lambda t: client.bounds(topic, timeout=t), "send": lambda t: producer.send(b"x", timeout=t),
        "create_topic": lambda t: client.create_topic(name, timeout=t),
        "consumer": lambda t: client.consumer(topic, start=EARLIEST, timeout=t),
    }  # fmt: skip
    if client.capabilities.durable_groups:
        found["group"] = lambda t: client.consumer(topic, group=name, timeout=t)
    return found


def _outcome(call: Callable[[float], object], timeout: float) -> tuple[Error | None, float]:
    began, error = time.monotonic(), None
    try:
        call(timeout)
    except Error as raised:
        error = raised
    return error, time.monotonic() - began


@case("FLT-14", needs=("persistent",), hooks=BROKER, timeout=300, profile="full")
def test_seek_before_an_outage(bench: Bench) -> None:
    """The position of a seek survives a kill of the broker, with and without a group."""
    topic, ids = bench.filled(60)
    reader = bench.reader(topic)
    bench.delivers(reader, ids[:10])
    member = bench.member(topic, bench.name()) if bench.client.capabilities.durable_groups else None
    if member is not None:
        bench.delivers(member, ids[:10])
        member.seek(ids[40])
    reader.seek(ids[30])
    with outage(bench):
        pass
    bench.equal([message.id for message in patiently(bench, reader, set(ids[30:]))], ids[30:])
    if member is not None:
        came = {message.id for message in patiently(bench, member, set(ids[40:]))}
        bench.equal(came, set(ids[40:]))


@case("FLT-08", needs=("persistent",), hooks=("second_process",), timeout=180, timed=True)
def test_lock_of_the_dead(bench: Bench) -> None:
    """When a process that had the backend open is killed, another can open it at once."""
    topic, ids = bench.filled(2)
    with bench.away(), ChildProcess(KEEPS_IT_OPEN, str(bench.harness.second_process), topic) as child:
        child.wait_for(1, 2 * bench.patience)
        child.kill()
        began = time.monotonic()
        with bench.harness.connect() as client:
            found = [message.id for message in client.read(topic)]
        took = time.monotonic() - began
    bench.equal(found, [*ids, MessageId.parse(child.lines[0])])
    bench.that(took < 5 * bench.scale, f"it took {took:.1f} s")
    bench.that(bench.fill(topic, 1)[0] > found[-1], "it can be written to")


KEEPS_IT_OPEN = """
import sys, time, mqplug
url, topic = sys.argv[1:]
client = mqplug.connect(url)
producer, reader = client.producer(topic), client.consumer(topic, start=mqplug.EARLIEST)
reader.receive(30)
print(producer.send(b"x", partition=0))
time.sleep(600)
"""


@case("FLT-15", needs=("persistent",), hooks=("tear_tail",), timeout=180)
def test_torn_tail(bench: Bench) -> None:
    """A torn write at the end is dropped, not served: each message up to there was sent, and more can follow."""
    topic = bench.topic()
    assert bench.harness.tear_tail is not None
    if bench.harness.second_process is None:
        for number in range(20):
            bench.fill(topic, 5, begin=5 * number)
        with bench.away():
            bench.harness.tear_tail()
    else:  # a killed process has closed nothing
        with bench.away(), ChildProcess(SENDS_BATCHES, bench.harness.second_process, topic) as child:
            child.wait_for(20, RECOVERY * bench.scale)
            child.kill()
            bench.harness.tear_tail()
    found = bench.read(topic)
    bench.that(found, "not everything is gone")
    bench.equal([message.value for message in found], [b"%d" % number for number in range(len(found))])
    later = bench.fill(topic, 3)
    bench.equal([message.id for message in bench.read(topic)], [*(message.id for message in found), *later])
    bench.equal(later, sorted(later))


@case("FLT-11", needs=("persistent",), hooks=("copy_store",), timeout=180)
def test_copied(bench: Bench) -> None:
    """A copy of a closed store opens with all its messages and positions, and does not change the original."""
    topic, ids = bench.filled(20)
    group = bench.name() if bench.client.capabilities.durable_groups else None
    if group is not None:
        bench.client.reset_group(group, topic, ids[12])
    before = bench.read(topic)
    assert bench.harness.copy_store is not None
    with bench.away(), bench.harness.copy_store() as copy:
        bench.equal(list(copy.read(topic)), before)
        if group is not None:
            bench.stands(copy.positions(topic, group=group)[0].position, ids, 12)
        with copy.producer(topic) as producer:
            bench.that(producer.send(b"in the copy", partition=0) > ids[-1], "it can be written to")
    bench.equal(bench.read(topic), before, "the original is unchanged")
