"""``serve``: runs several consumers of one loop, each with its handler, and ends them together."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mqplug._consume.handler_threads import stopping_on_sigterm
from mqplug._consume.serving import SIGNAL_SLICE_S, check_services, first_failure, raise_failures

if TYPE_CHECKING:
    from mqplug._consume.handler_threads import HandlerOrder
    from mqplug.aio._consumer import AsyncConsumer
    from mqplug.aio._handler_tasks import AsyncHandler


async def serve(
    consumers: Iterable[tuple[AsyncConsumer, AsyncHandler]],
    *,
    concurrency: int = 1,
    order: HandlerOrder | None = None,
) -> None:
    """As ``mqplug.serve``: each runs as ``AsyncConsumer.run`` does, in its own ``concurrency`` tasks.

    A second Ctrl-C has the effect of a first one without ``serve``. If cancelled, the handlers are also cancelled.
    """
    services = check_services(consumers)
    for consumer, handler in services:
        consumer._check_run(handler, concurrency, order)  # noqa: SLF001 - before any of them runs

    def stop() -> None:
        for consumer, _ in services:
            consumer.stop()

    with stopping_on_sigterm(stop), _raising_ctrl_c_at_the_end(stop):
        running = [
            asyncio.ensure_future(consumer.run(handler, concurrency=concurrency, order=order))
            for consumer, handler in services
        ]
        try:
            await _wait_for_a_failure(running)
            first = first_failure(running)
            stop()
            await asyncio.wait(running)
        except asyncio.CancelledError:
            for each in running:
                each.cancel()
            await asyncio.wait(running)
            raise
        raise_failures(first, running)


async def _wait_for_a_failure(running: Sequence[asyncio.Future[None]]) -> None:
    """Return as soon as one has failed, or all are done. Wakes up regularly for signals, as ``mqplug.serve`` does."""
    others = set(running)
    while others and first_failure(running) is None:
        _, others = await asyncio.wait(others, timeout=SIGNAL_SLICE_S, return_when=asyncio.FIRST_EXCEPTION)


@contextmanager
def _raising_ctrl_c_at_the_end(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on a first Ctrl-C within this block, and raise ``KeyboardInterrupt`` at its end.

    asyncio would cancel the task instead.
    """
    interrupted = False

    def on_sigint(number: int, frame: Any) -> None:
        nonlocal interrupted
        if interrupted and callable(before):
            before(number, frame)
        interrupted = True
        stop()

    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # it is ignored
        yield
        return
    signal.signal(signal.SIGINT, on_sigint)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupted:
            raise KeyboardInterrupt
