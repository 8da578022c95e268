"""``AsyncConsumer.run``: handlers in tasks."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from checked_loops import connected, filled, run, until, values

import mqplug

pytestmark = pytest.mark.python


def test_run_acks_what_a_handler_returned_from() -> None:
    """Each message is handled once, in order in its partition, and acked."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 500, partitions=2)
            seen: dict[int, list[bytes | None]] = {0: [], 1: []}

            async def handle(message: mqplug.Message) -> None:
                await asyncio.sleep(0)
                seen[message.partition].append(message.value)

            async with mq.consumer("orders", group="g", until=mqplug.LATEST) as orders:
                await orders.run(handle, concurrency=4)
            assert seen == {one: [b"%d" % number for number in range(one, 500, 2)] for one in (0, 1)}
            assert await mq.lag("orders", group="g") == {0: 0, 1: 0}

    run(story())


def test_handlers_of_two_partitions_run_side_by_side() -> None:
    """With a concurrency of two, two partitions are handled at the same time, and never more."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 9, partitions=3)
            inside, together = 0, 0
            both = asyncio.Event()

            async def handle(message: mqplug.Message) -> None:
                nonlocal inside, together
                inside += 1
                together = max(together, inside)
                if together == 2:
                    both.set()
                await both.wait()
                inside -= 1

            async with mq.consumer("orders", group="g", until=mqplug.LATEST) as orders:
                await orders.run(handle, concurrency=2)
            assert together == 2

    run(story())


def test_shared_messages_are_handled_side_by_side() -> None:
    """In shared mode, messages of one partition are handled concurrently; in key_shared, those of one key are not."""

    async def story(mode: str, most: int) -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out:
                await out.send_many([mqplug.Record(b"%d" % number, key=b"k") for number in range(20)])
            inside, together, seen = 0, 0, []

            async def handle(message: mqplug.Message) -> None:
                nonlocal inside, together
                inside += 1
                together = max(together, inside)
                await asyncio.sleep(0.01)
                inside -= 1
                seen.append(message.value)
                if len(seen) == 20:
                    orders.stop()

            async with mq.consumer("orders", group="g", mode=mode) as orders:  # type: ignore[arg-type]
                await orders.run(handle, concurrency=4)
            assert sorted(seen, key=int) == [b"%d" % number for number in range(20)]
            assert (together > 1) == (most > 1)
            if mode == "key_shared":
                assert seen == [b"%d" % number for number in range(20)]

    run(story("shared", 4))
    run(story("key_shared", 1))


def test_what_a_handler_raises_gives_the_message_back() -> None:
    """A handler that raises gets its message again as a new attempt; after the last one it becomes a dead letter."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 2)
            await mq.create_topic("dead")
            attempts = []

            async def handle(message: mqplug.Message) -> None:
                attempts.append((message.value, message.attempt))
                if message.value == b"0":
                    raise ValueError("no")

            consumer = mq.consumer(
                "orders", group="g", until=mqplug.LATEST, retry=mqplug.Retry(3, delay=0), dead_letter="dead"
            )
            async with consumer as orders:
                await orders.run(handle)
            assert attempts == [(b"0", 1), (b"0", 2), (b"0", 3), (b"1", 1)]
            assert [message.value async for message in mq.read("dead")] == [b"0"]
            assert await mq.lag("orders", group="g") == {0: 0}

    run(story())


@pytest.mark.parametrize("how", ["stop", "SIGTERM"])
def test_stop_finishes_what_is_in_hand(how: str) -> None:
    """After stop or SIGTERM, running handlers end normally and their messages are acked; no new one begins."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 10)
            seen = []

            async def handle(message: mqplug.Message) -> None:
                if how == "stop":
                    orders.stop()
                else:
                    os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.02)
                seen.append(message.value)

            async with mq.consumer("orders", group="g") as orders:
                await orders.run(handle)
            assert seen == [b"0"]
            assert await mq.lag("orders", group="g") == {0: 9}

    run(story())


def test_run_that_is_cancelled_cancels_its_handlers() -> None:
    """A cancelled run leaves no handler running; unhandled messages go to the next receive."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 5)
            cancelled = []

            async def handle(message: mqplug.Message) -> None:
                if message.value == b"0":
                    return
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    cancelled.append(message.value)
                    raise

            async with mq.consumer("orders", group="g") as orders:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await orders.run(handle)
                assert cancelled == [b"1"]
                assert await values(orders, 3) == [b"2", b"3", b"4"]
                assert (await orders.statistics()).returned == 0
            assert await mq.lag("orders", group="g") == {0: 4}

    run(story())


def test_a_handler_that_is_cancelled_by_itself_failed() -> None:
    """A handler in which one of its own awaits was cancelled has failed: its message comes again."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1)
            attempts = []

            async def handle(message: mqplug.Message) -> None:
                attempts.append(message.attempt)
                if message.attempt == 1:
                    gone = asyncio.ensure_future(asyncio.sleep(1))
                    gone.cancel()
                    await gone

            async with mq.consumer(
                "orders", group="g", until=mqplug.LATEST, retry=mqplug.Retry(None, delay=0)
            ) as orders:
                await orders.run(handle)
            assert attempts == [1, 2]

    run(story())


def test_a_plain_function_is_no_handler() -> None:
    """A handler that is not async is refused, and nothing is acked for it."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1)
            async with mq.consumer("orders", group="g") as orders:
                with pytest.raises(TypeError, match="async function"):
                    await orders.run(lambda message: None)  # type: ignore[arg-type,return-value]
                for wrong, error in ((0, ValueError), ("2", TypeError)):
                    with pytest.raises(error, match="concurrency"):
                        await orders.run(print, concurrency=wrong)  # type: ignore[arg-type]
            assert await mq.lag("orders", group="g") == {0: 1}

    run(story())


def test_run_ends_when_the_consumer_is_closed() -> None:
    """A run ends when another task closes its consumer."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            orders = await mq.consumer("orders", group="g")

            async def handle(message: mqplug.Message) -> None:
                """Handle nothing: no message comes."""

            running = asyncio.ensure_future(orders.run(handle))
            await until(lambda: orders._receiving)
            await orders.close()
            await running

    run(story())


def test_an_error_of_receive_ends_run() -> None:
    """An error of receive is raised by run after the messages in hand are finished."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1)
            seen = []

            async def on_assigned(logs: list[mqplug.Log]) -> None:
                raise LookupError("mine")

            async def handle(message: mqplug.Message) -> None:
                await asyncio.sleep(0.02)
                seen.append(message.value)

            async with mq.consumer("orders", group="g", on_assigned=on_assigned) as orders:
                with pytest.raises(LookupError, match="mine"):
                    await orders.run(handle, concurrency=2)
            assert seen == [b"0"]

    run(story())
