"""CC: event loops, and processes that fork."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mqplug import EARLIEST, LATEST, ConcurrentUse, ForkedClient
from mqplug.aio import AsyncClient, AsyncConsumer, AsyncProducer
from mqplug_testing._case_tools.asyncio_cases import heartbeat, run_in_loop
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.forked_child import in_child
from mqplug_testing._case_tools.registry import Registry

case = Registry()

HELD = 0.15  # seconds for which the loop may be held
TRIES = 3  # a machine that is busy elsewhere does not hold the loop in the same call each time

Call = Callable[[], Awaitable[object]]


@case("CC-08", timed=True, profile="full")
def test_loop_goes_on(bench: Bench) -> None:
    """No call of ``mqplug.aio`` holds the event loop while it waits for the backend."""
    suspects: dict[str, float] | None = None
    for _ in range(TRIES):
        held = _measured(bench)
        known = held if suspects is None else suspects
        suspects = {name: gap for name, gap in held.items() if gap > HELD * bench.scale and name in known}
        if not suspects:
            break
    bench.equal(suspects, {})


def _measured(bench: Bench) -> dict[str, float]:
    """For how long each call held the loop at most."""
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
    """What may wait for the backend, in an order in which all of it can be done."""
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
    """What was opened in one event loop is ``ConcurrentUse`` in another, which may have a client of its own."""
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
    """A client that is used after a fork raises ``ForkedClient`` in the child; the parent goes on."""
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
