"""Opens readers and consumers of the client library, and tries again when the library forgets one.

It may forget one that it opens just when the broker closes the topic, to move it to another broker. Then it sends
nothing more, and fails only at its own timeout, or never if it is closed before. Another attempt is answered at once.
So after a while another attempt begins, and the first result counts.

The attempts are asynchronous: a thread that waits forever inside the client library would keep the process alive.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

import _pulsar
import pulsar

import mqplug
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.client_calls import CLOSED_CHECK_S, raise_unless_ok

Begin = Callable[[Callable[[Any, Any], None]], None]
"""Begins to open a reader or consumer; the callback gets the result and the opened object."""

ATTEMPT_WAITS_S = (2.0, 2.0, 2.0, 2.0, 4.0, 8.0, 14.0)  # for each attempt, before the next begins


class RetryingOpener:
    """The part of a client that ``pulsar.Client.subscribe`` and ``create_reader`` use, with retries."""

    def __init__(self, client: pulsar.Client, closed: Event) -> None:
        self._native = client._client
        self._consumers = client._consumers
        self._closed = closed

    def reader(self, topic: str, start: Any, **options: Any) -> Any:
        """Open a client's reader."""
        return pulsar.Client.create_reader(self._client, topic, start, **options)

    def consumer(self, topic: str, group: str, **options: Any) -> Any:
        """Open a client's consumer."""
        return pulsar.Client.subscribe(self._client, topic, group, **options)

    # used by pulsar.Client --------------------------------------------------------------------------------

    @property
    def _client(self) -> Any:
        return self

    def create_reader(self, *arguments: Any) -> Any:
        """Open the inner part of a reader."""
        return open_with_retries(partial(self._native.create_reader_async, *arguments), self._closed)

    def subscribe(self, *arguments: Any) -> Any:
        """Open the inner part of a consumer."""
        return open_with_retries(partial(self._native.subscribe_async, *arguments), self._closed)


class _Attempts:
    """The attempts to open one reader or consumer, and their results."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._ended: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        self._lock = Lock()
        self._over = False
        self.begun = 0

    def begin(self) -> None:
        """Begin another attempt."""
        self.begun += 1
        self._begin(self._end)

    def _end(self, result: Any, opened: Any) -> None:
        with self._lock:
            if not self._over:
                self._ended.put((result, opened))
                return
        _close_on_thread(result, opened)

    def next(self, wait_s: float, closed: Event) -> tuple[Any, Any] | None:
        """Return the next result; None if none arrives in time."""
        deadline = Deadline(wait_s)
        while (left := deadline.remaining(CLOSED_CHECK_S)) > 0:
            with suppress(Empty):
                return self._ended.get(timeout=left)
            if closed.is_set():
                raise mqplug.Closed("the connection was closed", fix="Connect again")
        return None

    def stop(self) -> None:
        """Close the remaining results, and later ones as they arrive."""
        with self._lock:
            self._over = True
        while not self._ended.empty():
            _close_on_thread(*self._ended.get())


def open_with_retries(begin: Begin, closed: Event) -> Any:
    """Begin attempts until one ends, and return the object that it opened. Close the objects of the other attempts."""
    attempts = _Attempts(begin)
    try:
        for wait_s in ATTEMPT_WAITS_S:
            attempts.begin()
            if (found := attempts.next(wait_s, closed)) is not None:
                break
        else:
            raise mqplug.Timeout(
                f"pulsar-client answered none of {attempts.begun} attempts to open a reader or consumer",
                fix="Try again",
            )
        if (
            attempts.begun > 1 and found[0] != _pulsar.Result.Ok
        ):  # an earlier attempt may only be slow, and block this one
            found = attempts.next(ATTEMPT_WAITS_S[0], closed) or found
    finally:
        attempts.stop()
    result, opened = found
    raise_unless_ok(result)
    return opened


def _close_on_thread(result: Any, opened: Any) -> None:
    """Close an opened object on a thread: the client library's own thread must not wait."""
    if result == _pulsar.Result.Ok:
        Thread(target=_close, args=(opened,), name="mqplug-pulsar-closing", daemon=True).start()


def _close(opened: Any) -> None:
    with suppress(_pulsar.PulsarException):
        opened.close()
