"""Runs cases about asyncio, each a coroutine in an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from mqplug_testing._case_tools.bench import Bench

HEARTBEAT_S = 0.001


def run_in_loop(bench: Bench, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a case's coroutine. Check that it does not hang, and that no task and no error is left over."""
    asyncio.run(_watched(bench, coroutine), debug=True)


async def _watched(bench: Bench, coroutine: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = bench.patience  # blocking the loop has a case of its own
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, error: errors.append(error))
    async with asyncio.timeout(3 * bench.patience):
        await coroutine
    await until(bench, lambda: asyncio.all_tasks() == {asyncio.current_task()}, "no task is left over")
    bench.equal(errors, [])


async def until(bench: Bench, condition: Callable[[], object], what: str) -> None:
    """Check that a condition becomes true in time, while the loop runs."""
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
    """Record the seconds that each iteration of the loop takes within the block."""
    gaps: list[float] = []
    beating = asyncio.ensure_future(_beat(gaps))
    await until(bench, lambda: gaps, "the loop runs")
    try:
        yield gaps
    finally:
        count = len(gaps)
        await until(bench, lambda: len(gaps) > count, "the loop runs")
        beating.cancel()
        await asyncio.wait({beating})


async def _beat(gaps: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(HEARTBEAT_S)
        gaps.append(loop.time() - before)
