"""The asyncio producer: order, outcomes, room in the queue, and cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest
from checked_loops import connected, run, until
from held_backend import HeldBackend, HeldProducer

import mqplug
import mqplug.aio
from mqplug.spi import hookimpl
from mqplug.spi.proxies import ProducerProxy

pytestmark = pytest.mark.python

TRACE: ContextVar[str] = ContextVar("trace", default="none")


@asynccontextmanager
async def held(**options: int) -> AsyncIterator[tuple[mqplug.aio.AsyncProducer, HeldProducer, mqplug.Log]]:
    """A producer whose driver settles nothing by itself, that driver, and the log to which it claims to store."""
    driver = HeldProducer()
    mqplug.register("held", HeldBackend(driver))
    async with mqplug.aio.connect("held") as mq:
        await mq.create_topic("orders")
        (log,) = await mq.partitions("orders")
        out = await mq.producer("orders", **options)
        yield out, driver, log
        driver.store_all(log)
        await out.close()


def taken(driver: HeldProducer) -> list[bytes | None]:
    """Return the records that the driver has not settled yet."""
    return [sending.value for sending in driver.taken]


def test_sends_keep_the_order_of_their_calls() -> None:
    """A thousand sends that are awaited together are stored in the order of their calls."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out:
                ids = await asyncio.gather(*(out.send(b"%d" % number) for number in range(1000)))
            assert ids == sorted(ids)
            assert [message.value async for message in mq.read("orders")] == [b"%d" % n for n in range(1000)]

    run(story())


def test_a_send_that_is_cancelled_before_it_leaves_the_loop_is_not_sent() -> None:
    """A send whose task is cancelled in the same iteration of the loop stores nothing, and delays no other."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out:
                await out.send(b"first")
                sending = asyncio.create_task(out.send(b"cancelled"))
                await asyncio.sleep(0)
                sending.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sending
                await out.send(b"last")
            assert [message.value async for message in mq.read("orders")] == [b"first", b"last"]

    run(story())


def test_all_ways_to_send_keep_the_order() -> None:
    """send, submit and send_many, called one after the other without waiting, are stored in that order."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out, asyncio.TaskGroup() as tasks:
                for number in range(0, 300, 3):
                    tasks.create_task(out.send(b"%d" % number))
                    tasks.create_task(out.send_many([b"%d" % (number + 1)]))
                    tasks.create_task(out.submit(b"%d" % (number + 2)))
            assert [message.value async for message in mq.read("orders")] == [b"%d" % n for n in range(300)]

    run(story())


def test_order_holds_from_the_first_message_to_a_topic() -> None:
    """The first messages to a topic, which must be looked up first, keep their order too."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer() as out:
                await asyncio.gather(*(out.send(b"%d" % number, topic="orders") for number in range(100)))
            assert [message.value async for message in mq.read("orders")] == [b"%d" % n for n in range(100)]

    run(story())


def test_a_handle_is_awaited() -> None:
    """Submit returns a handle at once, which returns the id each time it is awaited."""

    async def story() -> None:
        async with held() as (out, driver, log):
            handle = await out.submit(b"x")
            await until(lambda: driver.taken)
            assert (handle.done, handle.error, repr(handle)) == (False, None, "<AsyncSendHandle orders: on its way>")
            driver.store_all(log)
            placed = await handle
            assert placed == await handle.result(timeout=0) == mqplug.MessageId(log, (0,), ())
            assert handle.done

    run(story())


def test_wrong_records_are_refused_at_once() -> None:
    """An invalid record raises from the call itself, and the producer stays usable."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer() as out:
                with pytest.raises(TypeError, match="encode it first"):
                    await out.submit("text", topic="orders")  # type: ignore[arg-type]
                with pytest.raises(TypeError, match="topic="):
                    await out.send(b"where to")
                with pytest.raises(ValueError, match="partition"):
                    await out.submit(b"", topic="orders", partition=7)
                with pytest.raises(mqplug.TopicNotFound):
                    await out.submit(b"", topic="missing")
                with pytest.raises(TypeError):
                    await out.send_many([7])  # type: ignore[list-item]
                await out.send(b"fine", topic="orders")

    run(story())


def test_a_batch_gives_ids() -> None:
    """send_many returns the id of each record, in order; an empty one returns none."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders", partitions=2)
            async with mq.producer("orders") as out:
                ids = await out.send_many([mqplug.Record(b"%d" % number, partition=number % 2) for number in range(10)])
                assert [placed.log.partition for placed in ids] == [0, 1] * 5
                assert list(await out.send_many([])) == []

    run(story())


# outcomes


def test_a_failure_that_nobody_looked_at_raises_at_flush() -> None:
    """A submitted message that failed raises at flush, once, unless its handle was checked."""

    async def story() -> None:
        async with held() as (out, driver, _):
            seen, _unseen = await out.submit(b"seen"), await out.submit(b"unseen")
            await until(lambda: len(driver.taken) == 2)
            driver.fail_all(mqplug.MessageTooLarge("too large"))
            with pytest.raises(mqplug.MessageTooLarge):
                await seen
            with pytest.raises(mqplug.SendFailed) as caught:
                await out.flush(timeout=10)
            assert len(caught.value.results) == 1
            await out.flush(timeout=10)

    run(story())


def test_flush_waits_for_what_was_submitted() -> None:
    """Flush returns when all records are settled, including those that had not left the loop; it has a timeout."""

    async def story() -> None:
        async with held() as (out, driver, log):
            handle = await out.submit(b"x")
            with pytest.raises(mqplug.Timeout):
                await out.flush(timeout=0.05)
            flushing = asyncio.ensure_future(out.flush())
            await until(lambda: driver.taken)
            driver.store_all(log)
            await flushing
            assert handle.done

    run(story())


def test_a_send_that_times_out_goes_on() -> None:
    """A send that times out raises an error whose handle gets the late result."""

    async def story() -> None:
        async with held() as (out, driver, log):
            with pytest.raises(mqplug.SendTimeout) as caught:
                await out.send(b"x", timeout=0.05)
            driver.store_all(log)
            late = caught.value.handle
            assert isinstance(late, mqplug.aio.AsyncSendHandle)
            assert await late == mqplug.MessageId(log, (0,), ())

    run(story())


def test_statistics_count_what_was_accepted() -> None:
    """Records that have not reached the driver count as waiting."""

    async def story() -> None:
        async with held() as (out, driver, log):
            for _ in range(3):
                await out.submit(b"xy")
            found = await out.statistics()
            assert (found.accepted, found.waiting, found.bytes) == (3, 3, 6)
            driver.store_all(log)
            await out.flush()
            assert (await out.statistics()).stored == 3

    run(story())


# room


def test_a_full_queue_refuses_or_waits() -> None:
    """With a full queue, submit raises QueueFull on request or after its timeout, and otherwise waits its turn."""

    async def story() -> None:
        async with held(queue_messages=2) as (out, driver, log):
            for number in range(2):
                await out.submit(b"%d" % number)
            with pytest.raises(mqplug.QueueFull, match="2 messages"):
                await out.submit(b"no", when_full="raise")
            with pytest.raises(mqplug.QueueFull):
                await out.submit(b"no", timeout=0.05)
            waiting = [asyncio.ensure_future(out.submit(b"%d" % number)) for number in range(2, 6)]
            assert (await asyncio.wait(waiting, timeout=0.05))[0] == set()
            stored: list[bytes | None] = []
            while len(stored) < 6:
                await until(lambda: driver.taken)
                stored += taken(driver)
                driver.store_all(log)
            assert stored == [b"%d" % number for number in range(6)]
            await asyncio.wait(waiting, timeout=5)

    run(story())


def test_bytes_fill_a_queue_too() -> None:
    """A queue that is full by bytes takes no further record, however few it holds."""

    async def story() -> None:
        async with held(queue_bytes=1000) as (out, driver, log):
            await out.submit(b"x" * 1000)
            with pytest.raises(mqplug.QueueFull):
                await out.submit(b"no", when_full="raise")
            await until(lambda: driver.taken)
            driver.store_all(log)
            await out.submit(b"yes", timeout=5)
            await until(lambda: driver.taken)
            driver.store_all(log)

    run(story())


def test_who_waits_for_room_may_be_cancelled() -> None:
    """A submit that is cancelled while it waits for room sends nothing, and later ones continue."""

    async def story() -> None:
        async with held(queue_messages=1) as (out, driver, log):
            await out.submit(b"first")
            gone, next_one = asyncio.ensure_future(out.submit(b"gone")), asyncio.ensure_future(out.submit(b"next"))
            await until(lambda: driver.taken)
            gone.cancel()
            await asyncio.wait({gone}, timeout=5)
            driver.store_all(log)
            await next_one
            await until(lambda: driver.taken)
            assert taken(driver) == [b"next"]

    run(story())


# cancellation


def test_cancelled_later_the_send_goes_on() -> None:
    """A send that is cancelled on its way is stored, and the producer stays usable."""

    async def story() -> None:
        async with held() as (out, driver, log):
            sending = asyncio.ensure_future(out.send(b"gone"))
            await until(lambda: driver.taken)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            again = asyncio.ensure_future(out.send(b"again"))
            await until(lambda: len(driver.taken) == 2)
            assert taken(driver) == [b"gone", b"again"]
            driver.store_all(log)
            assert (await again).coordinates == (1,)
            await out.flush(timeout=5)

    run(story())


def test_a_handle_outlives_who_waited_for_it() -> None:
    """Cancelling the wait for a submitted message affects neither other waiters nor the message."""

    async def story() -> None:
        async with held() as (out, driver, log):
            handle = await out.submit(b"x")
            one, other = asyncio.ensure_future(handle.result()), asyncio.ensure_future(handle.result())
            await asyncio.sleep(0)
            one.cancel()
            await until(lambda: driver.taken)
            driver.store_all(log)
            assert (await other).log == log
            assert one.cancelled()

    run(story())


# ending


def test_close_waits_for_what_was_accepted() -> None:
    """Close flushes submitted messages, and counts those that cannot be settled in time."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out:
                handles = [await out.submit(b"x") for _ in range(100)]
            assert all(handle.done and handle.error is None for handle in handles)
        async with held() as (out, _, _log):
            handle = await out.submit(b"x")
            with pytest.raises(mqplug.CloseIncomplete, match="1 messages"):
                await out.close(timeout=0.1)
            with pytest.raises(mqplug.OutcomeUnknown):
                await handle

    run(story())


def test_a_send_that_waits_for_room_hears_of_close() -> None:
    """A send that waits for room raises Closed when the producer is closed."""

    async def story() -> None:
        async with held(queue_messages=1) as (out, driver, log):
            await out.submit(b"first")
            waiting = asyncio.ensure_future(out.send(b"second"))
            await until(lambda: driver.taken)
            closing = asyncio.ensure_future(out.close())
            await asyncio.sleep(0.01)
            driver.store_all(log)
            await closing
            with pytest.raises(mqplug.Closed):
                await waiting

    run(story())


# extensions


class Watched(ProducerProxy):
    """A producer that records the context in which each record is handed over."""

    seen: list[str]

    def send(self, sendings) -> None:
        self.seen += [TRACE.get()] * len(sendings)
        super().send(sendings)


class Tracing:
    """An extension that wraps producers in it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self):
        watched = Watched((yield))
        watched.seen = self.seen
        return watched


def test_a_record_takes_its_context_along() -> None:
    """An extension sees the sending task's context variables when the record is handed over."""

    async def send(out: mqplug.aio.AsyncProducer, name: str) -> None:
        TRACE.set(name)
        await out.send(b"")

    async def story() -> None:
        tracing = Tracing()
        async with mqplug.aio.connect("memory", extensions=[tracing]) as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out:
                await asyncio.gather(*(send(out, name) for name in ("red", "green", "blue")))
        assert tracing.seen == ["red", "green", "blue"]

    run(story())
