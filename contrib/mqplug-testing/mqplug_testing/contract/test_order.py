"""ORD: the rules that hold for a history of sends and receives."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier
from typing import Final

import attrs

from mqplug import Consumer, Message, MessageId, OutcomeUnknown, Record, after
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

EACH: Final = 200  # messages that each producer sends

Sent = list[tuple[MessageId, bytes]]


@attrs.frozen
class History:
    """The messages that each producer sent, and those that a reader received, each in their order."""

    topic: str
    sent: list[Sent]
    received: list[Message]

    @property
    def stored(self) -> dict[MessageId, bytes]:
        return {message_id: value for each in self.sent for message_id, value in each}


def one_by_one(bench: Bench, topic: str, name: bytes, count: int) -> Sent:
    """Send `count` messages, and wait for each."""
    producer = bench.connect().producer(topic)
    values = [b"%s-%d" % (name, number) for number in range(count)]
    return [(producer.send(value, partition=0), value) for value in values]


def in_batches(bench: Bench, topic: str, name: bytes, count: int) -> Sent:
    """Send `count` messages, a few at a time."""
    producer = bench.connect().producer(topic)
    values = [b"%s-%d" % (name, number) for number in range(count)]
    ids: list[MessageId] = []
    for start in range(0, count, 25):
        ids += producer.send_many([Record(value, partition=0) for value in values[start : start + 25]])
    return list(zip(ids, values, strict=True))


def unwatched(bench: Bench, topic: str, name: bytes, count: int) -> Sent:
    """Send `count` messages, and wait for all of them at the end."""
    producer = bench.connect().producer(topic)
    values = [b"%s-%d" % (name, number) for number in range(count)]
    handles = [producer.submit(value, partition=0) for value in values]
    producer.flush()
    return [(handle.result(), value) for handle, value in zip(handles, values, strict=True)]


WAYS: Final = (one_by_one, in_batches, unwatched)


def record(bench: Bench, receive: Callable[[Consumer], list[Message]] | None = None) -> History:
    """Let several producers send at the same time, each in its own way, while a reader receives."""
    topic = bench.topic()
    reader = bench.reader(topic)
    with ThreadPoolExecutor(len(WAYS) + 1) as pool:
        total = len(WAYS) * EACH
        reading = pool.submit(receive or (lambda reader: bench.take(reader, total)), reader)
        producing = [pool.submit(way, bench, topic, b"p%d" % number, EACH) for number, way in enumerate(WAYS)]
        return History(topic, [each.result() for each in producing], reading.result())


@case("ORD-01")
def test_nothing_lost(bench: Bench) -> None:
    """Every message that was stored is received."""
    history = record(bench)
    received = {message.id for message in history.received}
    bench.equal([each for each in history.stored if each not in received], [])


@case("ORD-02")
def test_nothing_invented(bench: Bench) -> None:
    """Every message that is received was sent, with that value and under that id."""
    history = record(bench)
    bench.equal({message.id: message.value for message in history.received}, history.stored)


@case("ORD-03")
def test_one_value_for_an_id(bench: Bench) -> None:
    """One id has one value, for every reader and however often it is read."""
    history = record(bench)
    again = bench.read(history.topic)
    bench.equal({message.id: message.value for message in again}, history.stored)
    bench.equal({message.id: message.value for message in history.received}, history.stored)


@case("ORD-04", needs=("exactly_once",))
def test_one_id_for_a_value(bench: Bench) -> None:
    """No message that was sent once is stored twice."""
    history = record(bench)
    values = [message.value for message in bench.read(history.topic)]
    bench.equal(len(values), len(set(values)))


@case("ORD-05")
def test_nothing_skipped(bench: Bench) -> None:
    """A reader that is not moved skips no stored message."""
    history = record(bench)
    bench.equal([message.id for message in history.received], sorted(history.stored))


@case("ORD-06")
def test_never_back(bench: Bench) -> None:
    """The ids that a reader gets strictly increase as long as it is not moved."""
    history = record(bench)
    _grow(bench, [message.id for message in history.received])


def _grow(bench: Bench, ids: list[MessageId]) -> None:
    falls = [(one, other) for one, other in pairwise(ids) if not one < other]
    bench.equal(falls, [])


@case("ORD-07")
def test_batches_in_order(bench: Bench) -> None:
    """Within a batch, and from one to the next, ids strictly increase and none is skipped."""
    batches: list[list[MessageId]] = []

    def receive(reader: Consumer) -> list[Message]:
        received: list[Message] = []
        while len(received) < len(WAYS) * EACH:
            batch = reader.receive_many(37, bench.patience)
            if not len(batch):
                break
            batches.append(batch.ids)
            received += batch
        return received

    history = record(bench, receive)
    for batch in batches:
        _grow(bench, batch)
    bench.equal([each for batch in batches for each in batch], sorted(history.stored))


@case("ORD-08")
def test_senders_in_order(bench: Bench) -> None:
    """The messages that one producer sends to a partition are stored in the order of sending."""
    history = record(bench)
    for sent in history.sent:
        ids = [message_id for message_id, _ in sent]
        _grow(bench, ids)
        mine = {value for _, value in sent}
        bench.equal([m.value for m in history.received if m.value in mine], [value for _, value in sent])


@case("ORD-09")
def test_readers_agree(bench: Bench) -> None:
    """Two readers see the same messages of a partition in the same order."""
    history = record(bench)
    bench.equal(bench.read(history.topic), history.received)
    bench.equal(list(bench.connect().read(history.topic)), history.received)


@case("ORD-10", hooks=("restart",), profile="full")
def test_after_a_restart(bench: Bench) -> None:
    """After a restart the same messages are read in the same order, under the same ids."""
    topic, ids = bench.filled(50)
    once = bench.read(topic)
    bench.restart()
    bench.equal([message.id for message in once], ids)
    bench.equal(bench.read(topic), once)
    ids += bench.fill(topic, 5)
    bench.equal([message.id for message in bench.read(topic)], ids)


@case("ORD-12", level="should", timed=True)
def test_soon(bench: Bench) -> None:
    """A consumer that waits gets a stored message within a second."""
    topic = bench.topic()
    reader, producer = bench.reader(topic), bench.producer(topic)
    for _ in range(10):
        sent = producer.send(b"x", partition=0)
        message = reader.receive(bench.scale)
        bench.equal(message and message.id, sent)


@case("ORD-13")
def test_once_or_not_at_all(bench: Bench) -> None:
    """A message whose outcome was not known in time is stored once or not at all, as its handle finally reports."""
    topic = bench.topic()
    producer, said = bench.producer(topic), dict[bytes, MessageId]()
    for number in range(300):
        value = b"%d" % number
        try:
            said[value] = producer.send(value, partition=0, timeout=0)
        except OutcomeUnknown as error:
            bench.that(error.handle, "it has a handle")
            if error.handle is not None and number % 2:
                said[value] = error.handle.result(bench.patience)
    producer.flush()
    found = {message.id: message.value for message in bench.read(topic)}
    bench.equal(len(set(found.values())), len(found), "nothing is stored twice")
    bench.equal({value: found.get(said[value]) for value in said}, {value: value for value in said})


@case("ORD-11")
def test_across_segments(bench: Bench) -> None:
    """Order holds across batches and segments of the log."""
    topic, ids = bench.topic(), list[MessageId]()
    for size in (1, 700, 2, 1500, 1):
        ids += bench.fill(topic, size)
        bench.roll(topic)
    bench.equal([message.id for message in bench.read(topic)], ids)
    _grow(bench, ids)
    bench.delivers(bench.reader(topic), ids)


@case("ORD-14")
def test_gaps_between_ids(bench: Bench) -> None:
    """Ids may have gaps: the message after an id, a position, and the end of the log are right nevertheless."""
    topic, ids = bench.topic(), list[MessageId]()
    for size in (1, 3, 1, 12, 2):  # ids may have gaps after a batch, and where a segment begins
        ids += bench.fill(topic, size)
        bench.roll(topic)
    reader = bench.reader(topic)
    for index, message_id in enumerate(ids[:-1]):
        reader.seek(message_id, inclusive=False)
        bench.stands(reader.position()[0], ids, index + 1)
        bench.sips(reader, [ids[index + 1]])
        bench.delivers(bench.reader(topic, after(message_id)), [ids[index + 1]])
    reader.seek(ids[-1], inclusive=False)
    bench.only_new(reader, topic)
    if bench.client.capabilities.durable_groups:
        _gaps_of_a_group(bench)


def _gaps_of_a_group(bench: Bench) -> None:
    topic, ids, group = bench.topic(), list[MessageId](), bench.name()
    whole = bench.client.capabilities.ack_granularity == "entry"  # then messages sent together come again together
    for size in (1, 1, 1) if whole else (1, 3, 2):
        ids += bench.fill(topic, size)
        bench.roll(topic)
    for index, message_id in enumerate(ids):
        bench.client.reset_group(group, topic, after(message_id))
        bench.stands(bench.client.positions(topic, group=group)[0].position, ids, index + 1)
        # coordinates after the last one may hold no message, such as the marker of a transaction
        left = len(ids) - index - 1
        if left or bench.marks(topic).exact:
            bench.equal(bench.client.lag(topic, group=group)[0] > 0, left > 0)
    bench.only_new(bench.member(topic, group), topic)


ROUNDS = 135  # these find an error that occurs once in twenty times with 99.9 percent probability
SENDERS = 4


@case("ORD-15", timeout=300)
def test_senders_at_once(bench: Bench) -> None:
    """All messages that four producers send at the same moment are stored, each under its own id, in 135 rounds."""
    topic = bench.topic()
    producers = [bench.connect().producer(topic) for _ in range(SENDERS)]
    together = Barrier(SENDERS)

    def send(number: int) -> list[tuple[MessageId, bytes]]:
        sent = []
        for running in range(ROUNDS):
            values = [b"%d-%d-%d" % (number, running, each) for each in range(1 + running % 2)]
            together.wait(bench.patience)
            ids = producers[number].send_many([Record(value, partition=0) for value in values])
            sent += list(zip(ids, values, strict=True))
        return sent

    with ThreadPoolExecutor(SENDERS) as pool:
        sent = [each for part in pool.map(send, range(SENDERS)) for each in part]
    found = {message.id: message.value for message in bench.read(topic)}
    bench.equal([each for each in sent if found.get(each[0]) != each[1]], [], "sent and not found")
    bench.equal(len(found), len(sent))
