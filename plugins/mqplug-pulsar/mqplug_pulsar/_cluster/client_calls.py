"""Calls of the client library and requests: with a deadline, on threads that do not keep the process from ending.

The client's calls cannot be interrupted, and share one timeout, set when it connects. So they run on threads. A call
that does not end in time is abandoned, and its late result is discarded.

Some calls may never be answered: the client forgets a request that waits for a connection while the client is closed.
These calls are asynchronous, and ``answer`` waits for them: a thread stuck in one would be lost to the pool.

Python joins the threads of a ``ThreadPoolExecutor`` before anything else at exit, so a stuck call would make the
process hang. This module therefore has its own pool, and closes clients that are still open when the process ends.
Otherwise their threads continue to report sends, and calls return to Python threads. An interpreter that has ended
kills each thread that returns to it, which the C++ runtime treats as a fault: it aborted the process one time in five.
A client that the broker does not let close in time is shut down, so that its calls return before that.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, TimeoutError as Late, wait
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Event, Lock, Semaphore, Thread
from typing import Any, TypeVar
from weakref import WeakSet, finalize

import _pulsar
import pulsar

import mqplug
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.errors import error_from_exception

T = TypeVar("T")
_Work = tuple[Future[Any], Callable[[], Any]]

_under_way: set[Future[Any]] = set()  # of all pools
os.register_at_fork(after_in_child=_under_way.clear)  # they are the parent's


class DaemonThreads:
    """Runs calls in the order of their submission, on at most ``most`` threads."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = Lock()
        self._count = 0
        self._idle = Semaphore(0)
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._end = finalize(self, self._work.put, None)
        self._end.atexit = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Begin a call and return its future. Raise ``RuntimeError`` if the pool was closed."""
        with self._lock:
            if not self._end.alive:
                raise RuntimeError("the pool was closed")
            future: Future[T] = Future()
            _under_way.add(future)
            future.add_done_callback(_under_way.discard)
            self._work.put((future, call))
            if not self._idle.acquire(blocking=False) and self._count < self._most:
                self._count += 1
                name = f"{self._name}_{self._count}"
                Thread(target=_run, args=(self._work, self._idle), name=name, daemon=True).start()
            return future

    def close(self) -> None:
        """Accept no more calls. Submitted calls still run."""
        with self._lock:
            self._end()


@contextmanager
def under_way() -> Iterator[None]:
    """Make ``wait_for_calls`` also wait for this thread while it is within the context."""
    future: Future[None] = Future()
    _under_way.add(future)
    try:
        yield
    finally:
        _under_way.discard(future)
        future.set_result(None)


def wait_for_calls(timeout: float) -> bool:
    """Wait until the running calls of all pools have ended. Return whether they ended in time."""
    return not wait(tuple(_under_way), timeout).not_done


def _run(work: SimpleQueue[_Work | None], idle: Semaphore) -> None:
    while (item := work.get()) is not None:
        _call(*item)
        del item
        idle.release()
    work.put(None)  # for the next thread


def _call(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - the future raises it
        future.set_exception(error)
    else:
        future.set_result(result)


Key = TypeVar("Key")

CALL_THREADS = 16
METADATA_RETRY_S = 0.02
UNREACHABLE_RETRY_S = 0.2
CLOSED_CHECK_S = 0.2  # between two checks whether the client was closed

Begin = Callable[[Callable[..., None]], object]
"""Begins an asynchronous call of the client library, whose callback gets its result code and its value."""


class ClientCalls:
    """A pool of threads for calls of the client library, whose errors it translates."""

    def __init__(self) -> None:
        self._threads = DaemonThreads(CALL_THREADS, "mqplug-pulsar")
        self.closed = Event()

    def run(self, call: Callable[[], T], timeout: float, *, discard: Callable[[T], Any] | None = None) -> T:
        """Return the result of one call. A result that comes too late goes to ``discard``."""
        return self.each({None: call}, timeout, discard=discard)[None]

    def each(
        self, calls: Mapping[Key, Callable[[], T]], timeout: float, *, discard: Callable[[T], Any] | None = None
    ) -> dict[Key, T]:
        """Return the results of concurrent calls. If one fails, the results of the others go to ``discard``."""
        deadline = Deadline(timeout)
        running = {key: self.start(call) for key, call in calls.items()}
        try:
            return {key: _result(future, deadline.remaining(), timeout) for key, future in running.items()}
        except BaseException:
            for future in running.values():
                if not future.cancel() and discard is not None:
                    future.add_done_callback(lambda done: _discard_late(done, discard))
            raise

    def complete(self, calls: Iterable[Callable[[], Any]], timeout: float) -> None:
        """Wait until all of these concurrent calls have ended, then raise the error of a failed one."""
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
        """Return the answer to an asynchronous call of the client library, or raise its error, translated."""
        try:
            return self.answer(begin, timeout)
        except _pulsar.PulsarException as error:
            raise error_from_exception(error) from error

    def answer(self, begin: Begin, timeout: float) -> Any:
        """Return the answer to an asynchronous call of the client library."""
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
        """Accept no more calls. Running calls continue."""
        self.closed.set()
        self._threads.close()


def retry_while_cursor_moves(call: Callable[[], T], deadline: Deadline) -> T:
    """Return the result of a call. Repeat it while the broker refuses it because it moves a cursor."""
    while True:
        try:
            return call()
        except _pulsar.BrokerMetadataError:
            if deadline.expired:
                raise
        time.sleep(METADATA_RETRY_S)


def retry_while_unreachable(call: Callable[[], T], deadline: Deadline) -> T:
    """Return the result of a call. Repeat it until a broker answers."""
    while True:
        try:
            return call()
        except mqplug.ConnectError:
            if deadline.remaining() <= UNREACHABLE_RETRY_S:
                raise
        time.sleep(UNREACHABLE_RETRY_S)


def raise_unless_ok(result: Any) -> None:
    """Raise the client library's error for one of its result codes, unless this is ``Ok``."""
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


def _discard_late(future: Future[T], discard: Callable[[T], Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        with suppress(Exception):
            discard(future.result())


EXIT_TIMEOUT_S = 2.0  # for running calls, and again for the close: then the process ends even if no broker answers
RETURN_TIMEOUT_S = 1.0  # for calls of closed clients


class ExitCloser:
    """The open ``pulsar.Client`` objects, and a thread that closes them when the process ends.

    Only a thread that is not joined can bound the time of a close, and no thread can be started when the process ends.
    So one thread waits from the first client on.
    """

    def __init__(self) -> None:
        self._clients: WeakSet[pulsar.Client] = WeakSet()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._now = Event()
        self._done = Event()

    def add(self, client: pulsar.Client) -> None:
        """Add a client."""
        with self._lock:
            self._clients.add(client)
            if self._thread is None:
                self._thread = Thread(target=self._close, name="mqplug-pulsar-leaving", daemon=True)
                self._thread.start()

    def close_all(self) -> bool:
        """Close all clients. Return whether that ended in time."""
        if self._thread is None:
            return True
        wait_for_calls(EXIT_TIMEOUT_S)  # a client that is closed while it opens a producer never answers
        self._now.set()
        if self._done.wait(EXIT_TIMEOUT_S) and wait_for_calls(RETURN_TIMEOUT_S):
            return True
        for client in tuple(self._clients):
            client.shutdown()
        self._done.wait(RETURN_TIMEOUT_S)
        wait_for_calls(RETURN_TIMEOUT_S)
        return False

    def _close(self) -> None:
        self._now.wait()
        for client in tuple(self._clients):
            with suppress(_pulsar.PulsarException):  # already closed, or impossible to close
                client.close()
        self._done.set()


_exit_closer = ExitCloser()


def close_at_exit(client: pulsar.Client) -> None:
    """Close this client when the process ends, if it still exists."""
    _exit_closer.add(client)


def _close_all_clients() -> None:
    _exit_closer.close_all()


def _forget_clients() -> None:
    global _exit_closer  # earlier clients are the parent's
    _exit_closer = ExitCloser()


atexit.register(_close_all_clients)
os.register_at_fork(after_in_child=_forget_clients)
