"""Messages that are given up: they go to a topic of their own, and only then count as acked here."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from mqplug._deadline import Deadline

if TYPE_CHECKING:
    from mqplug._errors import Error
    from mqplug._message import Message
    from mqplug._produce.handle import SendHandle
    from mqplug._produce.producer import Producer

    Done = Callable[[Error | None], None]

logger = logging.getLogger("mqplug")

REASON, SOURCE, ATTEMPTS = "mqplug-dead-reason", "mqplug-dead-source", "mqplug-dead-attempts"
"""The headers that a dead letter has beside its own."""

LONGEST_REASON = 1000


class DeadLetters:
    """Sends them, and tells what became of each."""

    def __init__(self, producer: Producer, *, with_times: bool = True) -> None:
        self._producer = producer
        self._with_times = with_times
        self._on_their_way: list[tuple[SendHandle, Done]] = []
        self.sent = 0

    def __bool__(self) -> bool:
        return bool(self._on_their_way)

    def send(self, message: Message, reason: str, done: Done) -> None:
        """Hand a message over; ``done`` hears what became of it. Raises if it cannot even be queued."""
        headers = [
            *((name, value) for name, value in message.headers if name not in {REASON, SOURCE, ATTEMPTS}),
            (REASON, reason[:LONGEST_REASON].encode()),
            (SOURCE, str(message.id).encode()),
            (ATTEMPTS, b"%d" % message.attempt),
        ]
        moment = message.timestamp if self._with_times else None
        handle = self._producer.submit(message.value, key=message.key, headers=headers, timestamp=moment)
        handle.looked_at = True  # what becomes of it is told here
        self._on_their_way.append((handle, done))

    def collect(self) -> None:
        """Tell of those whose fate is known by now."""
        for each in list(self._on_their_way):
            handle, done = each
            if not handle.done:
                continue
            self._on_their_way.remove(each)
            if handle.error is None:
                self.sent += 1
            else:
                logger.warning("a dead letter was not stored, and is tried again: %s", handle.error)
            done(handle.error)

    def close(self, deadline: Deadline) -> None:
        """Wait for those on their way, and let go."""
        self._producer.close(deadline.remaining(math.inf) if deadline.timeout is not None else None)
