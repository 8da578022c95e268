"""A consumer of one log to which the broker sends messages only on request.

The client library prefetches, and no other member gets the prefetched messages. While its listener is paused, it
requests nothing from the broker. So the listener is paused whenever the wanted number of messages has arrived.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any

import _pulsar

from mqplug import Log
from mqplug.spi import weakly
from mqplug_pulsar._format import message_ids

Subscribe = Callable[[Callable[[Any, Any], None]], Any]
"""Opens a client's consumer with this listener."""
RESUME_S = 0.1  # within this time, the listener gets the messages that the client library already has


class PermitFeed:
    """A consumer of one log with requests for messages.

    One of the client's threads calls ``arrived`` with each message, and with the earliest time at which the client may
    have received it: while the listener is paused, a message waits in the client.
    """

    def __init__(self, log: Log, arrived: Callable[[PermitFeed, Any, float], None]) -> None:
        self.log = log
        self._subscribed: Any = None
        self._listened: Any = None  # the same consumer: the listener may be called before ``subscribe`` returns
        self._arrived = weakly(arrived)
        self._wanted = 0
        self._closed = False
        self._paused_at: float | None = None
        self._waiting_since = self._waiting_until = -inf  # of an entry that came while the listener was paused
        self._entry_since = -inf

    def open(self, subscribe: Subscribe) -> None:
        """Subscribe. The broker sends one entry at once."""
        self._subscribed = subscribe(weakly(self._on_message))

    @property
    def native(self) -> Any:
        """The client's consumer; None until it is subscribed or the first message arrives."""
        return self._subscribed or self._listened

    @property
    def is_connected(self) -> bool:
        """Whether the broker knows this consumer now."""
        return self.native is not None and bool(self.native.is_connected())

    def ask(self, wanted: int) -> None:
        """Request this many messages. A batch comes as a whole."""
        self._wanted = wanted
        if self._paused_at is not None:
            self._waiting_since, self._waiting_until = self._paused_at, time.monotonic() + RESUME_S
            self._paused_at = None
        if self.native is not None:
            with suppress(_pulsar.PulsarException):  # just closed
                self.native.resume_message_listener()

    def unask(self) -> None:
        """Request nothing more. Messages that were already requested still come."""
        self._wanted = 0
        self._note_pause()
        if self.native is not None:
            with suppress(_pulsar.PulsarException):
                self.native.pause_message_listener()

    def ack(self, ids: list[Any]) -> None:
        """Ack messages by their client ids."""
        for each in ids:
            self.native._consumer.acknowledge(each)

    def nack(self, ids: list[Any]) -> None:
        """Make the broker hand out entries again, in a tenth of a second."""
        for each in ids:
            self.native._consumer.negative_acknowledge(each)

    def close(self) -> None:
        """Close the client's consumer: the broker takes back all unacked messages."""
        self._closed = True
        if self._subscribed is not None:
            with suppress(_pulsar.PulsarException, ValueError):  # already closed, with its client or by the broker
                self._subscribed.close()

    def _on_message(self, consumer: Any, message: Any) -> None:
        # Runs on one of the client's threads, where an exception would be lost.
        self._listened = consumer
        native = message._message
        place = native.message_id()
        if place.batch_index() <= 0:
            now = time.monotonic()
            self._entry_since = self._waiting_since if now < self._waiting_until else now
            self._waiting_until = -inf  # later ones were sent only after this one was taken
        self._wanted -= 1
        if self._wanted <= 0 and _ends_its_entry(place):
            self._note_pause()
            consumer.pause_message_listener()
        if not self._closed:
            self._arrived(self, native, self._entry_since)

    def _note_pause(self) -> None:
        if self._paused_at is None:
            self._paused_at = time.monotonic()


def _ends_its_entry(native: Any) -> bool:
    index = native.batch_index()
    if index < 0:
        return True
    size = message_ids.detail(native)
    return not size or index + 1 >= size[0]
