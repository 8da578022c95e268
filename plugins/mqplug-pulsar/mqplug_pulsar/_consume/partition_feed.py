"""One partition's native reader or consumer, and the messages that have arrived from it.

While none has arrived, a thread waits for the next message, so that the consumer waits for all partitions at once.
After a message has come, the others are taken without waiting. The native client prefetches up to the length of its
queue.

The client's asynchronous receive would need no thread, but it does not keep the order: a message that arrives during
the call may be skipped, and is then received only after the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Semaphore, Thread
from typing import Any, Generic, Protocol, TypeVar

import _pulsar

from mqplug import Log
from mqplug.spi import Numbers
from mqplug_pulsar._consume.received_messages import Received
from mqplug_pulsar._format.note_texts import Skipped

Native = Any  # a pulsar.Reader or a pulsar.Consumer
R = TypeVar("R", bound=Received)
R_co = TypeVar("R_co", bound=Received, covariant=True)

NATIVE_WAIT_MS = 30_000  # a close ends the native wait at once, if the client can close


class TakeNow(Protocol[R_co]):
    """Takes messages from the inner part of a native reader or consumer, without waiting."""

    def __call__(self, native: Any, arrived: list[Any], most: int, /) -> tuple[R_co, int]:
        """Return up to ``most`` messages, those that have arrived first, and the native result.

        It is Ok if more may be there, Timeout if none are, else why the reader is of no use any more.
        """
        ...


class PartitionFeed(Generic[R]):
    """Messages of one log, from a native reader or consumer. One thread at a time takes them."""

    def __init__(
        self,
        log: Log,
        native: Native,
        wanted: Numbers | None,
        ready: Callable[[PartitionFeed[R]], None],
        take_now: TakeNow[R],
    ) -> None:
        self.log = log
        self.native = native
        self.wanted = wanted
        """The next coordinates to deliver; earlier messages are dropped. None if not known yet."""
        self.skipped: Skipped | None = None
        """With a group at a position beyond the end: messages in between are not delivered, but count as acked."""
        self.closed = False
        self.interrupted = False
        """Whether messages were lost on their way to the caller, by Ctrl-C. They are there again if it is reopened."""
        self._kept: deque[R] = deque()
        self._arrived: list[Any] = []
        self._ready = ready
        self._take_now = take_now
        # The wrappers of pulsar.Reader and pulsar.Consumer would double the cost of the call.
        self._inner = getattr(native, "_reader", None) or native._consumer
        self._receive: Callable[[int], Any] = getattr(self._inner, "receive", None) or self._inner.read_next
        self._waiting = True  # True: only the thread receives messages; False: only the caller
        self._wait = Semaphore()
        Thread(target=self._run, name=f"mqplug-pulsar-{log.topic}-{log.partition}", daemon=True).start()

    def _run(self) -> None:
        while not self.closed:
            self._wait.acquire()
            if (message := self._next()) is not None:
                self._arrived.append(message)
                self._waiting = False
                self._ready(self)

    def _next(self) -> Any | None:
        """Wait for the next message and return it; None once the feed is closed."""
        while not self.closed:
            try:
                return self._receive(NATIVE_WAIT_MS)
            except _pulsar.Timeout:
                continue
            except _pulsar.PulsarException:
                self.closed = True
        return None

    def take(self, most: int) -> R | None:
        """Return up to ``most`` messages that have arrived. If there are no more, make the thread wait for the next."""
        if self._kept:
            return self._take_kept(most)
        if self._waiting:
            return None
        arrived, self._arrived = self._arrived, []
        try:
            received, result = self._take_now(self._inner, arrived, most)
        except BaseException:
            self.interrupt()
            raise
        if result == _pulsar.Result.Ok.value:
            self._ready(self)
        elif result == _pulsar.Result.Timeout.value:
            self._waiting = True
            self._wait.release()
        else:
            self.closed = True
        return received if len(received) else None

    def _take_kept(self, most: int) -> R:
        received = self._kept.popleft()
        if len(received) > most:
            self._kept.appendleft(received.only(range(most, len(received))))
            received = received.only(range(most))
        self._ready(self)
        return received

    def put_back(self, received: R | None) -> None:
        """Return these messages again from the next ``take``, before all others: they cannot be judged yet."""
        if received is not None and len(received):
            self._kept.appendleft(received)
        self._ready(self)

    def interrupt(self) -> None:
        """Deliver nothing more: messages before it may be lost."""
        self.interrupted = self.closed = True

    def close(self) -> None:
        """Close the native reader or consumer, and drop the messages that have arrived."""
        self.closed = True
        self._wait.release()
        self._arrived = []
        with suppress(_pulsar.PulsarException, ValueError):  # already closed, with its client or by the broker
            self.native.close()
