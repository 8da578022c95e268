"""No call blocks the event loop: measured by a task that wants to run every millisecond."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from checked_loops import connected, filled, run, until

import mqplug
import mqplug.aio
from mqplug.spi import hookimpl
from mqplug.spi.proxies import ConsumerProxy, ProducerProxy

pytestmark = pytest.mark.python

SLOW = 0.25  # seconds that each operation takes in the slow backend
HELD = 0.19  # seconds that the loop may be blocked: a call that waited for the backend would block it for longer


@asynccontextmanager
async def heartbeat() -> AsyncIterator[list[float]]:
    """Record how long each iteration of the loop took."""
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.001)
            gaps.append(time.monotonic() - before)

    task = asyncio.ensure_future(beat())
    await until(lambda: gaps)
    try:
        yield gaps
    finally:
        count = len(gaps)
        await until(lambda: len(gaps) > count)
        task.cancel()
        await asyncio.wait({task})


class SlowConsumer(ConsumerProxy):
    """A consumer driver in which each call takes a while."""

    def poll(self, most: int, timeout: float) -> Any:
        time.sleep(SLOW)
        return super().poll(most, 0)

    def seek(self, positions: Any, timeout: float) -> None:
        time.sleep(SLOW)
        super().seek(positions, timeout)

    def commit(self, positions: Any, timeout: float) -> None:
        time.sleep(SLOW)
        super().commit(positions, timeout)

    def pause(self, logs: Any) -> None:
        time.sleep(SLOW)
        super().pause(logs)

    def resume(self, logs: Any) -> None:
        time.sleep(SLOW)
        super().resume(logs)

    def close(self, timeout: float) -> None:
        time.sleep(SLOW)
        super().close(timeout)


class SlowProducer(ProducerProxy):
    """A producer driver in which each call takes a while."""

    def send(self, sendings: Any) -> None:
        time.sleep(SLOW)
        super().send(sendings)

    def pump(self, timeout: float) -> None:
        time.sleep(SLOW)
        super().pump(timeout)

    def flush(self, timeout: float) -> None:
        time.sleep(SLOW)
        super().flush(timeout)

    def close(self, timeout: float) -> None:
        time.sleep(SLOW)
        super().close(timeout)


class Slow:
    """An extension that makes every operation slow."""

    @hookimpl(wrapper=True)
    def mqplug_connect(self) -> Any:
        time.sleep(SLOW)
        return (yield)

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self) -> Any:
        time.sleep(SLOW)
        return SlowProducer((yield))

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self) -> Any:
        time.sleep(SLOW)
        return SlowConsumer((yield))

    @hookimpl(wrapper=True)
    def mqplug_administer(self) -> Any:
        time.sleep(SLOW)
        return (yield)

    @hookimpl(wrapper=True)
    def mqplug_watermarks(self) -> Any:
        time.sleep(SLOW)
        return (yield)


class Cast:
    """A slow client, with a producer and a consumer of a topic."""

    def __init__(self) -> None:
        self.ids: list[mqplug.MessageId] = []

    async def open(self, mq: mqplug.aio.AsyncClient) -> None:
        self.mq = mq
        self.ids = await filled(mq, 1000)
        self.out = await mq.producer("orders")
        self.orders = await mq.consumer("orders", group="g")

    async def begin_to_store(self) -> asyncio.Future[None]:
        """Start storing acks in the backend, with a message in hand."""
        first: Any = await self.orders.receive(timeout=30)
        await self.orders.ack(first)
        self.message: Any = await self.orders.receive(timeout=30)
        storing = asyncio.ensure_future(self.orders.commit())
        await asyncio.sleep(SLOW / 10)
        return storing


Call = Callable[[Cast], Awaitable[Any]]


async def _handling(cast: Cast) -> None:
    async with cast.orders.handling(cast.message):
        pass


async def _read(cast: Cast) -> None:
    async for _ in cast.mq.read("orders"):
        pass


async def _pause(cast: Cast) -> None:
    await cast.orders.pause()
    await cast.orders.resume()


CALLS: dict[str, Call] = {
    "create_topic": lambda cast: cast.mq.create_topic("audit"),
    "watermarks": lambda cast: cast.mq.watermarks("orders"),
    "lag": lambda cast: cast.mq.lag("orders", group="g"),
    "producer": lambda cast: cast.mq.producer("orders"),
    "consumer": lambda cast: cast.mq.consumer("orders", group="other"),
    "read": _read,
    "send": lambda cast: cast.out.send(b"x"),
    "submit": lambda cast: cast.out.submit(b"x"),
    "send_many": lambda cast: cast.out.send_many([b"x"] * 3),
    "flush": lambda cast: cast.out.flush(),
    "statistics": lambda cast: cast.out.statistics(),
    "receive": lambda cast: cast.orders.receive(),
    "receive_many": lambda cast: cast.orders.receive_many(2),
    "idle receive": lambda cast: cast.orders.receive(timeout=SLOW),
    "ack": lambda cast: cast.orders.ack(cast.message),
    "ack by id": lambda cast: cast.orders.ack(cast.message.id),
    "ack_through": lambda cast: cast.orders.ack_through(cast.message),
    "nack": lambda cast: cast.orders.nack(cast.message),
    "handling": _handling,
    "commit": lambda cast: cast.orders.commit(),
    "seek": lambda cast: cast.orders.seek(cast.ids[2]),
    "pause and resume": _pause,
    "state": lambda cast: cast.orders.state(),
    "position": lambda cast: cast.orders.position(),
    "committed": lambda cast: cast.orders.committed(),
    "close of a producer": lambda cast: cast.out.close(),
    "close of a consumer": lambda cast: cast.orders.close(),
    "close": lambda cast: cast.mq.close(),
}


async def _measure() -> dict[str, float]:
    """Return the longest time for which each call blocked the loop."""
    held: dict[str, float] = {}
    cast = Cast()
    async with mqplug.aio.connect("memory", extensions=[Slow()]) as mq:
        await cast.open(mq)
        for name, call in CALLS.items():
            storing = None if name.startswith("close") else await cast.begin_to_store()
            async with heartbeat() as gaps:
                await call(cast)
            held[name] = max(gaps)
            if storing is not None:
                await asyncio.wait({storing})
    return held


@pytest.mark.timeout(300)
def test_no_call_holds_the_loop() -> None:
    """However slow the backend is, and while it stores acks, other tasks run during every call."""
    suspects = set(CALLS)

    async def story() -> None:
        held = await _measure()
        suspects.intersection_update(name for name, seconds in held.items() if seconds > HELD)

    for _ in range(3):  # a busy machine does not block the loop in the same call each time
        run(story(), seconds=100)
        if not suspects:
            break
    assert suspects == set()


def test_the_loop_comes_round_under_load() -> None:
    """While thousands of messages are sent, iterated over and acked, other tasks keep running."""

    async def produce(out: mqplug.aio.AsyncProducer) -> None:
        for number in range(20_000):
            await out.submit(b"%d" % number)

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out, mq.consumer("orders", group="g") as orders:
                async with heartbeat() as gaps, asyncio.TaskGroup() as tasks:
                    tasks.create_task(produce(out))
                    count = 0
                    async for message in orders:
                        await orders.ack(message)
                        count += 1
                        if count == 20_000:
                            break
                assert len(gaps) > 10
                assert max(gaps) < 10  # rather than until everything is done: a busy machine may delay the loop itself

    run(story())


def test_iteration_gives_way() -> None:
    """An iteration over messages that are all available lets other tasks run, and a timeout takes effect."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1000)
            async with mq.consumer("orders", group="g") as orders:
                count = 0

                async def drain() -> None:
                    nonlocal count
                    async with asyncio.timeout(0.05):
                        async for _ in orders:
                            time.sleep(0.001)  # noqa: ASYNC251 - a handler that computes
                            count += 1

                with pytest.raises(TimeoutError):
                    await drain()
                assert 0 < count < 1000

    run(story())
