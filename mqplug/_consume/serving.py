"""``serve``: runs several consumers, each with its handler, and ends them together."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mqplug._consume.handler_threads import stopping_on_sigterm

if TYPE_CHECKING:
    from mqplug._consume.consumer import Consumer
    from mqplug._consume.handler_threads import Handler, HandlerOrder

logger = logging.getLogger("mqplug")

SIGNAL_SLICE_S = 0.2  # SIGTERM and Ctrl-C are noticed within this time

Served = TypeVar("Served", bound=tuple[Any, Any])


def serve(
    consumers: Iterable[tuple[Consumer, Handler]], *, threads: int = 1, order: HandlerOrder | None = None
) -> None:
    """Run consumers, each with its handler, until all have ended.

    Each runs as ``Consumer.run`` does, on its own ``threads`` threads. SIGTERM, Ctrl-C and the first failure stop all
    of them: the messages that are being handled are finished, and their acks are stored. Then the failure or
    ``KeyboardInterrupt`` is raised. Call it in the main thread, which is the only one that gets the signals.
    """
    services = check_services(consumers)
    for consumer, handler in services:
        consumer._check_run(handler, threads, order)  # noqa: SLF001

    def stop() -> None:
        for consumer, _ in services:
            consumer.stop()

    with stopping_on_sigterm(stop), ThreadPoolExecutor(len(services), "mqplug-serve") as pool:
        try:
            running = [pool.submit(each.run, handler, threads=threads, order=order) for each, handler in services]
            _wait_for_a_failure(running)
            first = first_failure(running)
        finally:  # also after Ctrl-C
            stop()
    raise_failures(first, running)


def _wait_for_a_failure(running: Sequence[Future[None]]) -> None:
    """Return as soon as one has failed, or all are done.

    Waits in slices, because a signal that comes just before a wait, or to another thread, does not end the wait.
    """
    others = set(running)
    while others and first_failure(running) is None:
        _, others = wait(others, SIGNAL_SLICE_S, return_when=FIRST_EXCEPTION)


def check_services(consumers: Iterable[Served]) -> Sequence[Served]:
    """Return the pairs of consumers and handlers. Raise if ``serve`` could not run them or would get no signal."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("serve() must be called in the main thread, which gets SIGTERM and Ctrl-C: call run() here")
    services: list[Any] = list(consumers)
    if not services:
        raise ValueError("serve() needs at least one pair of a consumer and its handler")
    for each in services:
        if not isinstance(each, tuple) or len(each) != 2:
            raise TypeError(f"serve() takes pairs of a consumer and its handler, not {type(each).__name__}")
    if len({id(consumer) for consumer, _ in services}) < len(services):
        raise ValueError("serve() runs each consumer once, but one of them is listed twice")
    return services


class Running(Protocol):
    """A run in progress: a future or an asyncio task."""

    def done(self) -> bool: ...
    def exception(self) -> BaseException | None: ...


def first_failure(running: Iterable[Running]) -> BaseException | None:
    """Return the error of a failed run, or None."""
    return next((error for each in running if each.done() and (error := each.exception()) is not None), None)


def raise_failures(first: BaseException | None, running: Iterable[Running]) -> None:
    """Raise the first failure, if any, and log those of the other runs."""
    for each in running:
        other = each.exception()
        if first is None:
            first = other
        elif other not in {None, first}:
            logger.error("another consumer failed at the end of serve()", exc_info=other)
    if first is not None:
        raise first
