"""A pool of threads that do not keep the process from ending.

Python joins the threads of a ``ThreadPoolExecutor`` before anything else at exit. A call of the native client may never
return, for example when its client is closed while it waits for a connection, and the process would hang.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, TypeVar
from weakref import finalize

T = TypeVar("T")
_Work = tuple[Future[Any], Callable[[], Any]]

_under_way: set[Future[Any]] = set()  # of all pools
os.register_at_fork(after_in_child=_under_way.clear)  # they are the parent's


class DaemonThreads:
    """Runs calls in the order of their submission, as many at a time as there may be threads."""

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
        """Accept no more calls. Those that were submitted go on."""
        with self._lock:
            self._end()


@contextmanager
def under_way() -> Iterator[None]:
    """Have ``wait_for_calls`` wait for what this thread does in here, too."""
    future: Future[None] = Future()
    _under_way.add(future)
    try:
        yield
    finally:
        _under_way.discard(future)
        future.set_result(None)


def wait_for_calls(timeout: float) -> bool:
    """Wait until the calls under way have ended, in all pools. Return whether they have in time."""
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
