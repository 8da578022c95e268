"""CC: many threads, event loops and forks, and writes, reads and trims at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from threading import Event, Thread
from typing import Final

import pytest

from mqplug import (
    EARLIEST,
    LATEST,
    Client,
    Closed,
    ConcurrentUse,
    Consumer,
    Error,
    ForkedClient,
    Message,
    MessageId,
    Position,
    PositionLost,
    Producer,
    Record,
)
from mqplug.aio import AsyncClient, AsyncConsumer, AsyncProducer
from mqplug_testing._case_tools.asyncio_cases import heartbeat, run_in_loop
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import in_child
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_order import WAYS

case = Registry()


@case("CC-01")
def test_one_producer(bench: Bench) -> None:
    """Eight threads may use one producer: everything is stored, the messages of each thread in its order."""
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
    """A second thread that receives gets ``ConcurrentUse``; any thread may seek and close."""
    topic, ids = bench.filled(3)
    reader = bench.reader(topic, LATEST)
    begun, got = Event(), list[MessageId | None]()

    def receive() -> None:
        begun.set()
        while not got:
            with suppress(ConcurrentUse):  # the other thread may be receiving just then
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
    """Several threads may close the same object at the same time."""
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
    """A send during close is stored or raises ``Closed``, and the reported outcome is true."""
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
    bench.that(ended.wait(bench.patience), "the sender ended")
    found = {message.id for message in bench.read(topic)}
    bench.equal([each for each in stored if each not in found], [])


@case("CC-07", needs=("delete_topic",), profile="full")
def test_delete_during_send(bench: Bench) -> None:
    """When a topic is deleted while a producer has it open, its sends fail with an error, and none waits forever."""
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


HELD = 0.15  # seconds for which the loop may be blocked
TRIES = 3  # a busy machine does not block the loop in the same call each time

Call = Callable[[], Awaitable[object]]


@case("CC-08", timed=True, profile="full")
def test_loop_goes_on(bench: Bench) -> None:
    """No call of ``mqplug.aio`` blocks the event loop while it waits for the backend."""
    suspects: dict[str, float] | None = None
    for _ in range(TRIES):
        held = _measured(bench)
        known = held if suspects is None else suspects
        suspects = {name: gap for name, gap in held.items() if gap > HELD * bench.scale and name in known}
        if not suspects:
            break
    bench.equal(suspects, {})


def _measured(bench: Bench) -> dict[str, float]:
    """Return how long each call blocked the loop at most."""
    topic, held = bench.topic(), dict[str, float]()

    async def story() -> None:
        async with bench.aio() as mq:
            out, reader = await mq.producer(topic), await mq.consumer(topic, start=EARLIEST)
            for name, call in calls(bench, mq, topic, out, reader).items():
                async with heartbeat(bench) as gaps:
                    await call()
                held[name] = max(gaps)

    run_in_loop(bench, story())
    return held


def calls(bench: Bench, mq: AsyncClient, topic: str, out: AsyncProducer, reader: AsyncConsumer) -> dict[str, Call]:
    """Return the calls that may wait for the backend, in an order in which all of them succeed."""
    name = bench.owned(bench.name())
    return {
        "create_topic": lambda: mq.create_topic(name), "partitions": lambda: mq.partitions(name),
        "watermarks": lambda: mq.watermarks(topic), "bounds": lambda: mq.bounds(topic),
        "resolve": lambda: mq.resolve(topic, LATEST),
        "producer": lambda: mq.producer(topic), "consumer": lambda: mq.consumer(topic, start=EARLIEST),
        "send": lambda: out.send(b"x", partition=0), "submit": lambda: out.submit(b"x", partition=0),
        "send_many": lambda: out.send_many([b"x"] * 10), "flush": out.flush,
        "receive": lambda: reader.receive(bench.patience),
        "receive_many": lambda: reader.receive_many(3, bench.patience),
        "seek": lambda: reader.seek(EARLIEST), "receive after a seek": lambda: reader.receive(bench.patience),
        "health": mq.health, "close of a consumer": reader.close, "close of a producer": out.close,
        "close": mq.close,
    }  # fmt: skip


@case("CC-09")
def test_two_loops(bench: Bench) -> None:
    """An object opened in one event loop raises ``ConcurrentUse`` in another, which may have a client of its own."""
    topic, ids = bench.filled(2)
    opened: list[tuple[AsyncClient, AsyncProducer, AsyncConsumer]] = []

    async def first() -> None:
        mq = await bench.aio()
        opened.append((mq, await mq.producer(topic), await mq.consumer(topic, start=EARLIEST)))

    async def second() -> None:
        mq, out, reader = opened[0]
        refused: list[Call] = [
            mq.health, lambda: mq.partitions(topic), lambda: mq.producer(topic), mq.close,
            lambda: out.send(b"x"), lambda: out.submit(b"x"), lambda: out.send_many([b"x"]), out.flush, out.close,
            reader.receive, lambda: reader.receive_many(1), lambda: reader.seek(EARLIEST), reader.commit, reader.close,
        ]  # fmt: skip
        for call in refused:
            with bench.raises(ConcurrentUse) as caught:
                await call()
            bench.that("event loop" in str(caught.value), str(caught.value))
        async with bench.aio() as other, other.producer(topic) as mine:
            ids.append(await mine.send(b"here", partition=0))
            bench.equal([message.id async for message in other.read(topic)], ids)

    run_in_loop(bench, first())
    try:
        run_in_loop(bench, second())
    finally:
        opened[0][0].sync.close()


@case("CC-10", level="should")
def test_fork(bench: Bench) -> None:
    """A client that is used after a fork raises ``ForkedClient`` in the child; the parent continues."""
    topic, ids = bench.filled(2)
    producer, reader = bench.producer(topic), bench.reader(topic)
    bench.delivers(reader, ids)
    attempts: list[Callable[[], object]] = [
        lambda: bench.client.watermarks(topic), lambda: bench.client.producer(topic),
        lambda: bench.client.consumer(topic, start=EARLIEST), lambda: producer.send(b"x", timeout=1),
        lambda: producer.submit(b"x"), lambda: producer.flush(1), lambda: reader.receive(1),
        lambda: reader.seek(EARLIEST, timeout=1),
    ]  # fmt: skip
    bench.equal(in_child(attempts, bench.patience), [ForkedClient.__name__] * len(attempts))
    ids.append(producer.send(b"parent", partition=0))
    bench.delivers(reader, ids[2:])
    bench.equal([message.id for message in bench.read(topic)], ids)


WRITERS: Final = 16
READERS: Final = 4
ROUNDS: Final = 6


@case("CC-11", hooks=("trim_before",), timeout=180)
def test_trimmed_while_read(bench: Bench) -> None:
    """While a topic is trimmed, a reader gets every retained message, or ``PositionLost``, and never wrong data."""
    topic, ids = bench.filled(50)
    reader, found = bench.reader(topic, prefetch_bytes=1_000), list[Message]()
    with ThreadPoolExecutor(1) as pool:
        trimming = pool.submit(_send_and_trim, bench, topic, ids)

        def at_the_end() -> bool:
            try:
                found.extend(reader.receive_many(7, bench.waiting.poll))
            except PositionLost:
                reader.seek(EARLIEST)
            return trimming.done() and bool(found) and found[-1].id == ids[-1]

        bench.wait(at_the_end, "the reader came to the end", within=100)
        trimming.result()
    numbers = {message_id: number for number, message_id in enumerate(ids)}
    bench.equal([message.value for message in found], [b"%d" % numbers[message.id] for message in found])
    places = [numbers[message.id] for message in found]
    bench.that(all(one < other for one, other in pairwise(places)), f"never back: {places}")
    low = bench.marks(topic).low
    left = [message_id for message_id in ids if low.precedes(message_id)]
    bench.equal([message.id for message in found][-len(left) :], left, "all retained messages came")
    if bench.client.capabilities.trim:
        _each_gap_is_reported(bench)


def _each_gap_is_reported(bench: Bench) -> None:
    """Check that a reader that is overtaken a little at a time misses nothing without ``PositionLost``."""
    topic = bench.topic()
    ids = list(bench.filler(topic).send_many([Record(bytes(500), partition=0) for _ in range(400)]))
    numbers = {message_id: number for number, message_id in enumerate(ids)}
    reader, runs = bench.reader(topic, prefetch_bytes=2_000), list[list[int]]([[]])

    def trim() -> None:
        for first in range(2, 380, 2):
            bench.client.trim(topic, {0: Position(ids[first].log, ids[first].coordinates)})

    with ThreadPoolExecutor(1) as pool:
        trimming = pool.submit(trim)
        while not runs[-1] or runs[-1][-1] != len(ids) - 1:
            try:
                batch = reader.receive_many(1, bench.patience)
                bench.that(batch, "the reader continues")
                runs[-1] += [numbers[message.id] for message in batch]
            except PositionLost:
                reader.seek(EARLIEST)
                runs.append([])
        trimming.result()
    gaps = [(one, other) for run in runs for one, other in pairwise(run) if other != one + 1]
    bench.equal(gaps, [], "the gaps without PositionLost")


def _send_and_trim(bench: Bench, topic: str, ids: list[MessageId]) -> None:
    """Send new messages and trim the old ones, several times."""
    for _ in range(ROUNDS):
        bench.roll(topic)
        new = bench.fill(topic, 50, begin=len(ids))
        ids += new
        bench.trim(topic, Position(new[0].log, new[0].coordinates))


@case("CC-12", timeout=900)
def test_soak(bench: Bench) -> None:
    """With sixteen writers and four readers at once, nothing is lost, invented, duplicated or out of order for any."""
    topic, each = bench.topic(), bench.sized(quick=20, full=200, soak=5_000)
    readers = [bench.reader(topic) for _ in range(READERS)]
    with ThreadPoolExecutor(WRITERS + READERS) as pool:
        reading = [pool.submit(_read, bench, reader, WRITERS * each) for reader in readers]
        names = [b"w%d" % number for number in range(WRITERS)]
        writing = [pool.submit(WAYS[n % len(WAYS)], bench, topic, name, each) for n, name in enumerate(names)]
        sent = [future.result() for future in writing]
        seen = [future.result() for future in reading]
    stored = sorted(pair for mine in sent for pair in mine)
    for found in seen:
        bench.equal(found, stored)
    for mine in sent:
        bench.equal([message_id for message_id, _ in mine], sorted(message_id for message_id, _ in mine))
    bench.equal([(message.id, message.value) for message in bench.read(topic)], stored, "read once more")


def _read(bench: Bench, reader: Consumer, count: int) -> list[tuple[MessageId, bytes | None]]:
    """Return the next `count` messages, or a few more."""
    found: list[tuple[MessageId, bytes | None]] = []
    while len(found) < count:
        batch = reader.receive_many(100, bench.patience)
        if not batch:
            pytest.fail(f"only {len(found)} of {count} messages came in time")
        found += [(message.id, message.value) for message in batch]
    return found
