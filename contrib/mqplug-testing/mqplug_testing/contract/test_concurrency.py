"""CC: many threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event, Thread

from mqplug import EARLIEST, LATEST, Client, Closed, ConcurrentUse, Consumer, Error, MessageId, Producer
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("CC-01")
def test_one_producer(bench: Bench) -> None:
    """Eight threads may use one producer: everything is stored, what one thread sends in its order."""
    topic = bench.topic()
    producer = bench.producer(topic)

    def send(name: int) -> list[MessageId]:
        handles = [producer.submit(b"%d-%d" % (name, number), partition=0) for number in range(40)]
        return [producer.send(b"%d-first" % name, partition=0), *[handle.result() for handle in handles]]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(send, range(8)))
    found = bench.read(topic)
    bench.equal({message.id for message in found}, {each for mine in ids for each in mine})
    for name, mine in enumerate(ids):
        bench.equal(mine[1:], sorted(mine[1:]))
        values = [m.value for m in found if m.id in set(mine[1:])]
        bench.equal(values, [b"%d-%d" % (name, number) for number in range(40)])


@case("CC-02")
def test_one_consumer(bench: Bench) -> None:
    """A second thread that receives gets ``ConcurrentUse``; seek, stop and close may come from any thread."""
    topic, ids = bench.filled(3)
    reader = bench.reader(topic, LATEST)
    begun, got = Event(), list[MessageId | None]()

    def receive() -> None:
        begun.set()
        while not got:
            with suppress(ConcurrentUse):  # the other thread may be looking just then
                message = reader.receive(bench.patience)
                got.append(message.id if message else None)

    thread = Thread(target=receive, daemon=True)
    thread.start()
    begun.wait()
    bench.wait(lambda: _is_refused(lambda: reader.receive(0)), "a second receive is ConcurrentUse")
    reader.seek(ids[1])
    thread.join(bench.patience)
    bench.equal(got, [ids[1]])
    bench.delivers(reader, ids[2:])
    other = Thread(target=reader.close, daemon=True)
    other.start()
    other.join(bench.patience)
    with bench.raises(Closed):
        reader.receive(0)


def _is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except ConcurrentUse:
        return True
    return False


@case("CC-03")
def test_many_consumers(bench: Bench) -> None:
    """Twenty consumers of one topic each get every message."""
    topic, ids = bench.filled(20)
    readers = [bench.reader(topic) for _ in range(20)]
    for reader in readers:
        bench.delivers(reader, ids)


@case("CC-04")
def test_opened_at_once(bench: Bench) -> None:
    """Many threads may open producers and consumers of one topic at the same time."""
    topic, ids = bench.filled(3)

    def use(number: int) -> tuple[list[MessageId], MessageId]:
        with bench.client.consumer(topic, start=EARLIEST) as reader, bench.client.producer(topic) as producer:
            return [message.id for message in bench.take(reader, 3)], producer.send(b"%d" % number, partition=0)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(use, range(8)))
    bench.equal([found for found, _ in results], [ids] * 8)
    bench.equal({message.id for message in bench.read(topic)}, {*ids, *[sent for _, sent in results]})


@case("CC-05")
def test_closed_at_once(bench: Bench) -> None:
    """Several threads may close the same thing at the same time."""
    topic, ids = bench.filled(1)
    for _ in range(5):
        client = bench.connect()
        things: list[Client | Producer | Consumer] = [client]
        things += client.producer(topic), client.consumer(topic, start=EARLIEST)
        with ThreadPoolExecutor(6) as pool:
            closing = [pool.submit(thing.close) for thing in things for _ in range(2)]
        bench.equal([each.exception() for each in closing], [None] * 6)
    bench.equal([message.id for message in bench.read(topic)], ids)


@case("CC-06")
def test_send_during_close(bench: Bench) -> None:
    """A send during close is stored or ``Closed``; what it says is true."""
    topic, stored = bench.topic(), list[MessageId]()
    producer = bench.producer(topic)
    ended = Event()

    def send() -> None:
        with suppress(Closed):
            while True:
                stored.append(producer.send(b"x", partition=0))
        ended.set()

    Thread(target=send, daemon=True).start()
    bench.wait(lambda: len(stored) > 5, "messages are sent")
    producer.close()
    bench.that(ended.wait(bench.patience), "the sender was told")
    found = {message.id for message in bench.read(topic)}
    bench.equal([each for each in stored if each not in found], [])


@case("CC-07", needs=("delete_topic",), profile="full")
def test_delete_during_send(bench: Bench) -> None:
    """When a topic is deleted under a producer its sends fail with an error, and none waits for ever."""
    topic = bench.topic()
    producer = bench.producer(topic)
    producer.send(b"x", partition=0)
    bench.client.delete_topic(topic)
    bench.wait(lambda: _send_fails(bench, producer), "a send to a deleted topic raises", within=60)
    with suppress(Error):
        producer.close(bench.waiting.nothing)


def _send_fails(bench: Bench, producer: Producer) -> bool:
    try:
        producer.send(b"x", partition=0, timeout=bench.patience / 3)
    except Error:
        return True
    return False
