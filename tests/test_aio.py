"""The asyncio façade over the memory backend."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

import mqplug
import mqplug.aio


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine with a limit: nothing here may hang."""
    asyncio.run(asyncio.wait_for(story, 30))


def test_a_message_goes_round() -> None:
    """What was sent with await is received, acked and committed with await."""

    async def story() -> None:
        async with mqplug.aio.connect("memory") as mq:
            await mq.create_topic("orders")
            async with await mq.producer("orders") as out:
                placed = await out.send(b"one", key=b"k")
            async with await mq.consumer("orders", group="g") as orders:
                message = await orders.receive(timeout=5)
                assert message is not None
                assert (message.id, message.value, message.key) == (placed, b"one", b"k")
                orders.ack(message)
                await orders.commit()
            assert mq.sync.lag("orders", group="g") == {0: 0}

    run(story())


def test_sends_keep_the_order_of_their_calls() -> None:
    """A thousand sends that are awaited together are stored in the order in which they were made."""

    async def story() -> None:
        async with mqplug.aio.connect("memory") as mq:
            await mq.create_topic("orders")
            async with await mq.producer("orders") as out:
                ids = await asyncio.gather(*(out.send(b"%d" % number) for number in range(1000)))
            assert ids == sorted(ids)
            assert [message.value for message in mq.sync.read("orders")] == [b"%d" % n for n in range(1000)]

    run(story())


def test_to_cancel_a_receive_loses_no_message() -> None:
    """A message that arrives after its receive was cancelled goes to the next receive."""

    async def story() -> None:
        async with mqplug.aio.connect("memory") as mq:
            await mq.create_topic("orders")
            async with await mq.producer("orders") as out, await mq.consumer("orders", group="g") as orders:
                waiting = asyncio.ensure_future(orders.receive())
                assert await asyncio.wait({waiting}, timeout=0.05) == (set(), {waiting})
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await out.send(b"kept")
                message = await orders.receive(timeout=5)
                assert message is not None
                assert message.value == b"kept"

    run(story())


def test_an_idle_receive_returns_none() -> None:
    """A receive whose timeout runs out returns None, and the next one still gets what comes."""

    async def story() -> None:
        async with mqplug.aio.connect("memory") as mq:
            await mq.create_topic("orders")
            async with await mq.producer("orders") as out, await mq.consumer("orders", group="g") as orders:
                assert await orders.receive(timeout=0.02) is None
                await out.send(b"late")
                assert (await orders.receive(timeout=5)).value == b"late"  # type: ignore[union-attr]

    run(story())


def test_close_wakes_a_waiting_receive() -> None:
    """A receive that waits when its consumer is closed raises Closed."""

    async def story() -> None:
        async with mqplug.aio.connect("memory") as mq:
            await mq.create_topic("orders")
            orders = await mq.consumer("orders", group="g")
            waiting = asyncio.ensure_future(orders.receive())
            assert await asyncio.wait({waiting}, timeout=0.05) == (set(), {waiting})
            await orders.close()
            with pytest.raises(mqplug.Closed):
                await waiting

    run(story())


def test_a_client_of_another_loop_is_refused() -> None:
    """Using a client in a second event loop says that it belongs to the first."""

    async def opened() -> mqplug.aio.AsyncClient:
        return await mqplug.aio.connect("memory")

    async def used(mq: mqplug.aio.AsyncClient) -> None:
        await mq.create_topic("orders")

    mq = asyncio.run(opened())
    with pytest.raises(mqplug.ConcurrentUse, match="another event loop"):
        asyncio.run(used(mq))
    mq.sync.close()


def test_errors_cross_the_thread() -> None:
    """What send refuses is raised by the await."""

    async def story() -> None:
        async with mqplug.aio.connect("memory") as mq:
            await mq.create_topic("orders")
            async with await mq.producer("orders") as out:
                with pytest.raises(TypeError, match="encode it first"):
                    await out.send("text")  # type: ignore[arg-type]
                await out.send(b"still usable")

    run(story())
