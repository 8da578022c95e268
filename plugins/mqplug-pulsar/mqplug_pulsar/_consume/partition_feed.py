"""One partition's native reader or consumer, and what has arrived from it.

While nothing is there, a thread waits for the next message, so that a single wait serves any number of partitions.
Once a message came, the rest is taken without waiting. The native client prefetches as many messages as its queue was
given, and no more.

The client's asynchronous receive would need no thread. But it does not keep the order: a message that arrives while
it is being asked for may be passed over, and stays in the queue until the one behind it was handed out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Semaphore, Thread
from typing import Any

import _pulsar

from mqplug import Log
from mqplug.spi import Numbers

Native = Any  # a pulsar.Reader or a pulsar.Consumer

NATIVE_WAIT_MS = 30_000  # of one native wait; a close ends it at once, where the client can close


class PartitionFeed:
    """Messages of one log, from one native reader or consumer. One thread at a time takes them."""

    def __init__(
        self, log: Log, native: Native, wanted: Numbers | None, ready: Callable[[PartitionFeed], None]
    ) -> None:
        self.log = log
        self.native = native
        self.wanted = wanted
        """Where reading goes on; what lies before is dropped. None where that is not known yet."""
        self.floor: Numbers | None = None
        """With a group: the broker may begin at the start of the batch that this is in; what lies before is acked."""
        self.closed = False
        self._kept: list[Any] = []
        self._arrived: list[Any] = []
        self._ready = ready
        # The wrappers of pulsar.Reader and pulsar.Consumer cost as much again as the call.
        inner = getattr(native, "_reader", None) or native._consumer
        self._receive: Callable[[int], Any] = inner.receive if hasattr(inner, "receive") else inner.read_next
        self._waiting = True  # then the messages are the thread's to receive, otherwise the caller's: never both
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
        """The next message, whenever it comes; None when the feed was closed."""
        while not self.closed:
            try:
                return self._receive(NATIVE_WAIT_MS)
            except _pulsar.Timeout:
                continue
            except _pulsar.PulsarException:
                self.closed = True
        return None

    def take(self, most: int) -> list[Any]:
        """What is here, at most so many; the thread waits for more when there is no more."""
        if self._kept:
            kept, self._kept = self._kept, []
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

    def keep(self, messages: list[Any]) -> None:
        """These are taken again the next time, before all others: it is not clear yet whether they may be delivered."""
        self._kept = messages
        if messages:
            self._ready(self)

    def close(self) -> None:
        """Let go of the native reader or consumer; what has arrived is forgotten."""
        self.closed = True
        self._wait.release()
        self._arrived = []
        with suppress(_pulsar.PulsarException, ValueError):  # closed already: with its client, or by the broker
            self.native.close()
