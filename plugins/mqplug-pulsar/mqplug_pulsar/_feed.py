"""One partition's native reader or consumer, and what has arrived from it.

While nothing is there, one asynchronous receive is outstanding, so that a single wait serves any number of partitions.
Once a message came, the rest is taken synchronously, which is three times as fast. The native client prefetches as
many messages as its queue was given, and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import _pulsar

from mqplug import Log
from mqplug.spi import Numbers

Native = Any  # a pulsar.Reader or a pulsar.Consumer


class Feed:
    """Messages of one log, from one native reader or consumer. One thread at a time takes them."""

    def __init__(self, log: Log, native: Native, wanted: Numbers | None, ready: Callable[[Feed], None]) -> None:
        self.log = log
        self.native = native
        self.wanted = wanted
        """Where reading goes on; what lies before is dropped. None where that is not known yet."""
        self.floor: Numbers | None = None
        """With a group: the broker may begin at the start of the batch that this is in; what lies before is acked."""
        self.closed = False
        self._kept: list[Any] = []
        self._armed = False
        inner = getattr(native, "_reader", None) or native._consumer
        # pulsar.Reader and pulsar.Consumer lack the asynchronous calls; pulsar.asyncio has them, but needs a loop.
        self._ask = inner.receive_async if hasattr(inner, "receive_async") else inner.read_next_async
        self._take_now = inner.receive if hasattr(inner, "receive") else inner.read_next
        self._ready = ready
        self._arrived: list[Any] = []

    def arm(self) -> None:
        """Ask to be told of the next message; never twice at once, or order would be lost."""
        if not self._armed:
            self._armed = True
            self._ask(self._on_message)

    def _on_message(self, result: Any, message: Any) -> None:
        # On the client's own thread. An exception here would be fatal to the process.
        if result == _pulsar.Result.Ok:
            self._arrived.append(message)
            self._armed = False
            self._ready(self)

    def take(self, most: int) -> list[Any]:
        """What is here, at most so many; asks for more when there is no more."""
        if self._kept:
            kept, self._kept = self._kept, []
            self._ready(self)
            return kept
        if self._armed:
            return []
        messages, self._arrived = self._arrived, []
        take_now = self._take_now
        try:
            while len(messages) < most:
                messages.append(take_now(0))
        except _pulsar.Timeout:
            self.arm()
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
        self._arrived = []
        with suppress(_pulsar.PulsarException, ValueError):  # closed already: with its client, or by the broker
            self.native.close()
