"""Runs native calls and requests with a deadline.

The native client's calls cannot be interrupted, and share one timeout, set when it connects. So they run on threads. A
call that does not end in time is abandoned, and its late result is discarded.

Some calls may never be answered: the client forgets a question that waits for a connection while the client is closed.
These are made asynchronously, and waited for by ``answer``: a thread that is stuck in one would be lost to the pool.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, TimeoutError as Late, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, TypeVar

import _pulsar

import mqplug
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.daemon_threads import DaemonThreads
from mqplug_pulsar._cluster.errors import error_from_exception

T = TypeVar("T")
Key = TypeVar("Key")

CALL_THREADS = 16
METADATA_RETRY_S = 0.02
UNREACHABLE_RETRY_S = 0.2
CLOSED_CHECK_S = 0.2  # between two checks whether the client was closed

Begin = Callable[[Callable[..., None]], object]
"""Begins an asynchronous native call, whose callback gets the native result, and what it returns."""


class NativeCalls:
    """A pool of threads for native calls, whose errors it translates."""

    def __init__(self) -> None:
        self._threads = DaemonThreads(CALL_THREADS, "mqplug-pulsar")
        self.closed = Event()

    def run(self, call: Callable[[], T], timeout: float, *, discard: Callable[[T], Any] | None = None) -> T:
        """Return the result of one call. ``discard`` gets a result that comes too late."""
        return self.each({None: call}, timeout, discard=discard)[None]

    def each(
        self, calls: Mapping[Key, Callable[[], T]], timeout: float, *, discard: Callable[[T], Any] | None = None
    ) -> dict[Key, T]:
        """Return the results of concurrent calls. If one fails, ``discard`` gets the results of the others."""
        deadline = Deadline(timeout)
        running = {key: self.start(call) for key, call in calls.items()}
        try:
            return {key: _result(future, deadline.remaining(), timeout) for key, future in running.items()}
        except BaseException:
            for future in running.values():
                if not future.cancel() and discard is not None:
                    future.add_done_callback(lambda done: _let_go(done, discard))
            raise

    def complete(self, calls: Iterable[Callable[[], Any]], timeout: float) -> None:
        """Wait until concurrent calls have ended, even if one fails: then raise its error."""
        deadline = Deadline(timeout)
        running = [self.start(call) for call in calls]
        wait(running, deadline.remaining())
        for future in running:
            _result(future, deadline.remaining(), timeout)

    def start(self, call: Callable[[], T]) -> Future[T]:
        """Begin a call and return its future."""
        try:
            return self._threads.submit(call)
        except RuntimeError as error:
            raise mqplug.Closed("the connection was closed", fix="Connect again") from error

    def ask(self, begin: Begin, timeout: float) -> Any:
        """Return the answer to an asynchronous native call, or raise its error, translated."""
        try:
            return self.answer(begin, timeout)
        except _pulsar.PulsarException as error:
            raise error_from_exception(error) from error

    def answer(self, begin: Begin, timeout: float) -> Any:
        """Return the answer to an asynchronous native call."""
        answers: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        begin(lambda result, value=None: answers.put((result, value)))
        deadline = Deadline(timeout)
        while True:
            with suppress(Empty):
                result, value = answers.get(timeout=deadline.remaining(CLOSED_CHECK_S))
                raise_unless_ok(result)
                return value
            if self.closed.is_set():
                raise mqplug.Closed("the connection was closed", fix="Connect again")
            if deadline.expired:
                raise mqplug.Timeout(f"no answer within {timeout:.3g} s", fix="Allow more time")

    def close(self) -> None:
        """Accept no more calls. Those under way go on."""
        self.closed.set()
        self._threads.close()


def retry_while_cursor_moves(call: Callable[[], T], deadline: Deadline) -> T:
    """Return the result of a call that the broker refuses while it moves a cursor."""
    while True:
        try:
            return call()
        except _pulsar.BrokerMetadataError:
            if deadline.expired:
                raise
        time.sleep(METADATA_RETRY_S)


def retry_while_unreachable(call: Callable[[], T], deadline: Deadline) -> T:
    """Return the result of a call that may be repeated, as soon as a broker answers it."""
    while True:
        try:
            return call()
        except mqplug.ConnectError:
            if deadline.remaining() <= UNREACHABLE_RETRY_S:
                raise
        time.sleep(UNREACHABLE_RETRY_S)


def raise_unless_ok(result: Any) -> None:
    """Raise the native error that a native result stands for."""
    if result != _pulsar.Result.Ok:
        raise getattr(_pulsar, result.name, _pulsar.PulsarException)(f"Pulsar error: {result.name}")


def _result(future: Future[T], left: float, timeout: float) -> T:
    try:
        return future.result(max(0.0, left))
    except mqplug.Error:
        raise
    except Late:
        if not future.done():
            raise mqplug.Timeout(f"no answer within {timeout:.3g} s", fix="Allow more time") from None
        raise
    except Exception as error:
        if type(error).__module__ == "_pulsar":
            raise error_from_exception(error) from error
        raise


def _let_go(future: Future[T], discard: Callable[[T], Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        with suppress(Exception):
            discard(future.result())
