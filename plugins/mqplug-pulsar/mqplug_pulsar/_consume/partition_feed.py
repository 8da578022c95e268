"""One partition's native reader or consumer, and the messages that have arrived from it.

While none has arrived, a thread waits for the next message, so that the consumer waits for all partitions at once.
After a message has come, the others are taken without waiting. The native client prefetches up to the length of its
queue.

The client's asynchronous receive would need no thread, but it does not keep the order: a message that arrives during
the call may be skipped, and is then received only after the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Semaphore, Thread
from typing import Any

import _pulsar

from mqplug import Log
from mqplug.spi import Numbers
from mqplug_pulsar._cluster.broker_statistics import Skipped

Native = Any  # a pulsar.Reader or a pulsar.Consumer

NATIVE_WAIT_MS = 30_000  # a close ends the native wait at once, if the client can close


class PartitionFeed:
    """Messages of one log, from a native reader or consumer. One thread at a time takes them."""

    def __init__(
        self, log: Log, native: Native, wanted: Numbers | None, ready: Callable[[PartitionFeed], None]
    ) -> None:
        self.log = log
        self.native = native
        self.wanted = wanted
        """The next coordinates to deliver; earlier messages are dropped. None if not known yet."""
        self.skipped: Skipped | None = None
        """With a group at a position beyond the end: messages in between are not delivered, but count as acked."""
        self.closed = False
        self._kept: list[Any] = []
        self._arrived: list[Any] = []
        self._ready = ready
        # The wrappers of pulsar.Reader and pulsar.Consumer would double the cost of the call.
        inner = getattr(native, "_reader", None) or native._consumer
        self._receive: Callable[[int], Any] = inner.receive if hasattr(inner, "receive") else inner.read_next
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

    def take(self, most: int) -> list[Any]:
        """Return up to ``most`` messages that have arrived. If there are no more, make the thread wait for the next."""
        if self._kept:
            kept, self._kept = self._kept[:most], self._kept[most:]
            self._ready(self)
            return kept
        if self._waiting:
            return []
        messages, self._arrived = self._arrived, []
        receive = self._receive
        try:
            while len(messages) < most:
                messages.append(receive(0))
        except _pulsar.Timeout:
            self._waiting = True
            self._wait.release()
        except _pulsar.PulsarException:
            self.closed = True
        else:
            self._ready(self)
        return messages

    def put_back(self, messages: list[Any]) -> None:
        """Return these messages again from the next ``take``, before all others: they cannot be judged yet."""
        self._kept = messages + self._kept
        self._ready(self)

    def close(self) -> None:
        """Close the native reader or consumer, and drop the messages that have arrived."""
        self.closed = True
        self._wait.release()
        self._arrived = []
        with suppress(_pulsar.PulsarException, ValueError):  # already closed, with its client or by the broker
            self.native.close()
