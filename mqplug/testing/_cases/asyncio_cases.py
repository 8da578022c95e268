"""Cases about asyncio: each is a coroutine that is run in an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from mqplug.testing._cases.bench import Bench

BEAT = 0.001  # seconds


def tell(bench: Bench, story: Coroutine[Any, Any, None]) -> None:
    """Run it. It may not hang, no task may be left over, and nothing may go wrong unseen."""
    asyncio.run(_watched(bench, story), debug=True)


async def _watched(bench: Bench, story: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = bench.patience  # how long the loop is held is for a case of its own
    troubles: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with asyncio.timeout(3 * bench.patience):
        await story
    await until(bench, lambda: asyncio.all_tasks() == {asyncio.current_task()}, "no task is left over")
    bench.equal(troubles, [])


async def until(bench: Bench, condition: Callable[[], object], what: str) -> None:
    """Check that something holds before long, while the loop goes on."""
    with suppress(TimeoutError):
        async with asyncio.timeout(bench.patience):
            while not condition():  # noqa: ASYNC110 - it may be changed by any thread
                await asyncio.sleep(bench.waiting.poll)
    bench.that(condition(), f"not in time: {what}")


async def cancelled(bench: Bench, task: asyncio.Future[Any]) -> None:
    """Cancel a task, and check that it ends as cancelled."""
    task.cancel()
    with bench.raises(asyncio.CancelledError):
        await task


@asynccontextmanager
async def heartbeat(bench: Bench) -> AsyncIterator[list[float]]:
    """Notes how long the loop took to come round, each time, meanwhile."""
    gaps: list[float] = []
    beating = asyncio.ensure_future(_beat(gaps))
    await until(bench, lambda: gaps, "the loop comes round")
    try:
        yield gaps
    finally:
        count = len(gaps)
        await until(bench, lambda: len(gaps) > count, "the loop comes round")
        beating.cancel()
        await asyncio.wait({beating})


async def _beat(gaps: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(BEAT)
        gaps.append(loop.time() - before)
