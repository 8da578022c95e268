"""Helpers of the tests of `mqplug.aio`: a loop in which no task may hang, outlive the test, or fail unseen."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import mqplug.aio


def run(story: Coroutine[Any, Any, None], *, seconds: float = 60) -> None:
    """Run a coroutine in asyncio's debug mode, and check that no task and no thread is left."""
    asyncio.run(_watched(story, seconds), debug=True)
    wait_until(lambda: not aio_threads())


async def _watched(story: Coroutine[Any, Any, None], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = 5  # other tests measure how long the loop is blocked
    troubles: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with asyncio.timeout(seconds):
        await story
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert troubles == []


def aio_threads() -> list[threading.Thread]:
    """Return the threads that wait for a loop."""
    return [thread for thread in threading.enumerate() if thread.name == "mqplug-aio"]


def wait_until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait for a condition, outside of a loop."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this did not come about in time"
        time.sleep(0.005)


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait for a condition, inside a loop."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it may be changed by any thread
            await asyncio.sleep(0.005)


async def at_once(condition: Callable[[], object]) -> None:
    """Wait for a condition, and check it in every iteration of the loop."""
    while not condition():  # noqa: ASYNC110 - it may be changed by any thread
        await asyncio.sleep(0)


def connected() -> mqplug.aio.Opening[mqplug.aio.AsyncClient]:
    """A memory client that enforces the driver rules."""
    return mqplug.aio.connect("memory", debug=True)


async def values(consumer: mqplug.aio.AsyncConsumer, count: int) -> list[bytes | None]:
    """Return the payloads of the next messages."""
    found: list[bytes | None] = []
    while len(found) < count:
        message = await consumer.receive(timeout=10)
        assert message is not None, f"only {found} came"
        found.append(message.value)
    return found


async def filled(mq: mqplug.aio.AsyncClient, count: int, *, partitions: int = 1) -> list[mqplug.MessageId]:
    """Create a topic ``orders`` with this many numbered messages, in turn over the partitions."""
    await mq.create_topic("orders", partitions=partitions)
    async with mq.producer("orders") as out:
        records = [mqplug.Record(b"%d" % number, partition=number % partitions) for number in range(count)]
        return list(await out.send_many(records))
