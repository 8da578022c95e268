"""TO: asyncio tasks that are cancelled."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from mqplug import EARLIEST, LATEST, Message, MessageId, Record
from mqplug.aio import AsyncClient, AsyncConsumer, AsyncProducer
from mqplug_testing._case_tools.asyncio_cases import cancelled, run_in_loop, until
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("TO-03", profile="full")
def test_cancelled_receive(bench: Bench) -> None:
    """A receive that is cancelled, at any moment, loses no message: the next one gets it."""

    async def story() -> None:
        async with bench.aio() as mq:
            await _cancelled_while_it_waits(bench, mq)
            for way in (_one, _some):
                await _again_and_again(bench, mq, way)

    run_in_loop(bench, story())


async def _cancelled_while_it_waits(bench: Bench, mq: AsyncClient) -> None:
    topic = bench.topic()
    async with mq.consumer(topic, start=LATEST) as reader, mq.producer(topic) as out:
        waiting = asyncio.ensure_future(reader.receive())
        bench.equal((await asyncio.wait({waiting}, timeout=bench.waiting.nothing))[0], set())
        await cancelled(bench, waiting)
        sent = await out.send(b"kept", partition=0)
        message = await reader.receive(bench.patience)
        bench.equal(message and message.id, sent)


async def _one(reader: AsyncConsumer, _: random.Random) -> list[Message]:
    message = await reader.receive()
    return [message] if message is not None else []


async def _some(reader: AsyncConsumer, chance: random.Random) -> list[Message]:
    return list(await reader.receive_many(chance.randint(1, 9)))


Way = Callable[[AsyncConsumer, random.Random], Awaitable[list[Message]]]


async def _again_and_again(bench: Bench, mq: AsyncClient, way: Way) -> None:
    """Cancel receives at random moments, while messages come one after the other."""
    topic, chance, found = bench.topic(), random.Random(7), list[Message]()
    async with mq.consumer(topic, start=EARLIEST) as reader, mq.producer(topic) as out:
        sending = asyncio.ensure_future(_send_in_turn(out, 150))
        while not (sending.done() and found and found[-1].id == sending.result()[-1]):
            receiving = asyncio.ensure_future(way(reader, chance))
            for _ in range(chance.randint(0, 3)):  # into its first steps
                await asyncio.sleep(0)
            await asyncio.wait({receiving}, timeout=chance.choice([0, 0, 0.0005, 0.02]))
            receiving.cancel()
            try:
                found += await receiving
            except asyncio.CancelledError:
                continue
        bench.equal([message.id for message in found], sending.result())


async def _send_in_turn(out: AsyncProducer, count: int) -> list[MessageId]:
    return [await out.send(b"%d" % number, partition=0) for number in range(count)]


@case("TO-04")
def test_cancelled_send(bench: Bench) -> None:
    """A send that is cancelled is stored once or not at all, keeps its place, and the producer continues."""
    topic, said = bench.topic(), dict[bytes, MessageId]()
    chance = random.Random(3)

    async def story() -> None:
        async with bench.aio() as mq, mq.producer(topic) as out:
            for number in range(60):
                value = b"%d" % number
                sending = asyncio.ensure_future(out.send(value, partition=0))
                await asyncio.wait({sending}, timeout=chance.choice([0, 0, 0.0005, 0.002]))
                sending.cancel()
                await asyncio.wait({sending})
                if not sending.cancelled():
                    said[value] = sending.result()
            said[b"60"] = await out.send(b"60", partition=0)
            bench.that(len(said) < 61, "some were cancelled")

    run_in_loop(bench, story())
    found = {message.id: message.value or b"" for message in bench.read(topic)}
    bench.equal({value: found.get(each) for value, each in said.items()}, {value: value for value in said})
    numbers = [int(value) for value in found.values()]
    bench.equal(numbers, sorted(set(numbers)), "each once, in the order of the calls")
    bench.equal(numbers[-1:], [60])


@case("TO-06", profile="full")
def test_cancellation_gets_through(bench: Bench) -> None:
    """A task that is cancelled ends as cancelled, whatever it waits for; what it had opened is closed by then."""
    topic, ids = bench.filled(3)

    async def story() -> None:
        async with bench.aio() as mq:
            for wait in (_iterates, _receives, _receives_many):
                await _ends_as_cancelled(bench, mq, topic, wait)
            bench.equal([message.id async for message in mq.read(topic)], ids)
            if mq.capabilities.durable_groups:
                await _closes(bench, mq)

    run_in_loop(bench, story())


Wait = Callable[[AsyncConsumer], Awaitable[object]]


async def _ends_as_cancelled(bench: Bench, mq: AsyncClient, topic: str, wait: Wait) -> None:
    consumers: list[AsyncConsumer] = []
    task = asyncio.ensure_future(_consumes(mq, topic, wait, consumers))
    await until(bench, lambda: consumers, "the task has its consumer")
    await asyncio.wait({task}, timeout=bench.waiting.nothing)
    await cancelled(bench, task)
    bench.equal(["closed" in repr(each) for each in consumers], [True])


async def _consumes(mq: AsyncClient, topic: str, wait: Wait, consumers: list[AsyncConsumer]) -> None:
    async with mq.consumer(topic, start=LATEST) as reader, mq.producer(topic):
        consumers.append(reader)
        await wait(reader)


async def _iterates(reader: AsyncConsumer) -> None:
    async for _ in reader:
        pass


async def _receives(reader: AsyncConsumer) -> None:
    await reader.receive()


async def _receives_many(reader: AsyncConsumer) -> None:
    await reader.receive_many(10)


async def _closes(bench: Bench, mq: AsyncClient) -> None:
    """Check that a close that is cancelled still stores the acks, and leaves the group."""
    topic, ids = bench.filled(4)
    group = bench.name()
    member = await mq.consumer(topic, group=group)
    for _ in range(2):
        message = await member.receive(bench.patience)
        assert message is not None
        await member.ack(message)
    closing = asyncio.ensure_future(member.close())
    await asyncio.sleep(0)
    await cancelled(bench, closing)
    async with mq.consumer(topic, group=group) as heir:
        message = await heir.receive(bench.patience)
        bench.equal(message and message.id, ids[2])


@case("TO-07")
def test_cancelled_before(bench: Bench) -> None:
    """A call that is cancelled before it begins does nothing: no record is sent."""
    topic = bench.topic()

    async def story() -> None:
        async with bench.aio() as mq, mq.producer(topic) as out:
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: out.send(b"never", partition=0),
                lambda: out.send_many([Record(b"never", partition=0)]),
            ]
            for call in calls:
                await cancelled(bench, asyncio.ensure_future(_wrapped(call)))
                with bench.raises(asyncio.CancelledError):
                    await asyncio.ensure_future(_cancelled_itself(call))
            await out.send(b"after", partition=0)

    run_in_loop(bench, story())
    bench.equal([message.value for message in bench.read(topic)], [b"after"])


async def _wrapped(call: Callable[[], Awaitable[object]]) -> None:
    await call()


async def _cancelled_itself(call: Callable[[], Awaitable[object]]) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await call()


@case("TO-11", needs=("shared", "groups"))
def test_cancelled_receive_of_a_member_that_shares(bench: Bench) -> None:
    """Messages that arrived for a cancelled receive are not acked: a commit stores what was acked, and no more."""
    topic, ids = bench.dripped(12)
    group, acked = bench.name(), list[MessageId]()

    async def story() -> None:
        async with bench.aio() as mq, mq.consumer(topic, group=group, mode="shared") as member:
            for pause_s in (0.0, 0.01, 0.1, 0.3):
                receiving = asyncio.ensure_future(member.receive_many(5))
                await asyncio.sleep(0)
                time.sleep(pause_s)  # noqa: ASYNC251 - messages arrive while the loop cannot run
                await cancelled(bench, receiving)
                [message] = await member.receive_many(1, bench.patience)
                await member.ack(message)
                await member.commit()
                acked.append(message.id)

    run_in_loop(bench, story())
    heir = bench.member(topic, group, mode="shared")
    left = {message.id for message in bench.take(heir, len(ids) - len(acked))}
    bench.equal(left, set(ids) - set(acked))
