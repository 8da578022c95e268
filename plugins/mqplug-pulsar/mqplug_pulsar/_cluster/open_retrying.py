"""Opening native readers and consumers that the native client forgets.

It now and then forgets one that it opens just when the broker closes the topic, as it does to move it elsewhere: it
sends nothing more, gives up when its own timeout has passed, and never if it is closed before. Another attempt is
answered at once. So after a while there is another one, and the first that gives something is it.

The attempts are asynchronous: a thread that waits inside the native client for ever would not let the process end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

import _pulsar
import pulsar

import mqplug

Begin = Callable[[Callable[[Any, Any], None]], None]
"""Begins to open something; the callback gets the result, and what was opened."""

ATTEMPT_WAITS_S = (2.0, 2.0, 2.0, 2.0, 4.0, 8.0, 14.0)  # seconds: how long each attempt is waited for before the next
CLOSED_CHECK_S = 0.2  # seconds between looks whether the client was closed


class RetryingOpener:
    """What ``pulsar.Client.subscribe`` and ``create_reader`` need of a client."""

    def __init__(self, client: pulsar.Client, closed: Event) -> None:
        self._client: Any = self
        self._native = client._client
        self._consumers = client._consumers
        self._closed = closed

    def reader(self, topic: str, start: Any, **options: Any) -> Any:
        """A native reader."""
        return pulsar.Client.create_reader(self._client, topic, start, **options)

    def consumer(self, topic: str, group: str, **options: Any) -> Any:
        """A native consumer."""
        return pulsar.Client.subscribe(self._client, topic, group, **options)

    # what these two call ------------------------------------------------------------------------------------

    def create_reader(self, *arguments: Any) -> Any:
        """The inner part of a reader."""
        return open_with_retries(partial(self._native.create_reader_async, *arguments), self._closed)

    def subscribe(self, *arguments: Any) -> Any:
        """The inner part of a consumer."""
        return open_with_retries(partial(self._native.subscribe_async, *arguments), self._closed)


class _Attempts:
    """The attempts to open one thing, and what they gave."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._ended: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        self._lock = Lock()
        self._over = False
        self.begun = 0

    def begin(self) -> None:
        """Begin one more."""
        self.begun += 1
        self._begin(self._end)

    def _end(self, result: Any, opened: Any) -> None:
        with self._lock:
            if not self._over:
                self._ended.put((result, opened))
                return
        _let_go(result, opened)

    def next(self, wait_s: float, closed: Event) -> tuple[Any, Any] | None:
        """The next that ended; None if none does in time."""
        end = time.monotonic() + wait_s
        while (left := end - time.monotonic()) > 0:
            with suppress(Empty):
                return self._ended.get(timeout=min(CLOSED_CHECK_S, left))
            if closed.is_set():
                raise mqplug.Closed("the connection was closed", fix="Connect again")
        return None

    def stop(self) -> None:
        """Let go of what is not wanted any more, and of what comes later."""
        with self._lock:
            self._over = True
        while not self._ended.empty():
            _let_go(*self._ended.get())


def open_with_retries(begin: Begin, closed: Event) -> Any:
    """What an attempt gives; what others give later is closed."""
    attempts = _Attempts(begin)
    try:
        for wait_s in ATTEMPT_WAITS_S:
            attempts.begin()
            if (found := attempts.next(wait_s, closed)) is not None:
                break
        else:
            raise mqplug.Timeout("the native client gave no answer", fix="Try again")
        if attempts.begun > 1 and found[0] != _pulsar.Result.Ok:  # an earlier one may only be slow, and in the way
            found = attempts.next(ATTEMPT_WAITS_S[0], closed) or found
    finally:
        attempts.stop()
    result, opened = found
    if result != _pulsar.Result.Ok:
        raise getattr(_pulsar, result.name, _pulsar.PulsarException)(f"Pulsar error: {result.name}")
    return opened


def _let_go(result: Any, opened: Any) -> None:
    """On a thread, for the native client's own may not wait."""
    if result == _pulsar.Result.Ok:
        Thread(target=_close, args=(opened,), name="mqplug-pulsar-closing", daemon=True).start()


def _close(opened: Any) -> None:
    with suppress(_pulsar.PulsarException):
        opened.close()
