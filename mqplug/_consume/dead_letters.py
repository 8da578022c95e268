"""Dead letters: messages whose attempts are used up go to a separate topic, and then count as acked."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from mqplug._base.deadline import Deadline
from mqplug._model.errors import ConfigError, Error, Unsupported
from mqplug._model.position import LATEST_TIME_MS

if TYPE_CHECKING:
    from mqplug._model.message import Headers, Message
    from mqplug._produce.handle import SendHandle
    from mqplug._produce.producer import Producer

    Done = Callable[[Error | None], None]

logger = logging.getLogger("mqplug")

REASON, SOURCE, ATTEMPTS = "mqplug-dead-reason", "mqplug-dead-source", "mqplug-dead-attempts"
"""The headers that a dead letter has in addition to its own."""

TIMESTAMP = "mqplug-dead-timestamp"
"""The header with the message's timestamp, in milliseconds since 1970, if the dead letter cannot have it."""

HOPS = "mqplug-dead-hops"
"""The header that counts how often a message was a dead letter, starting with the second time."""
MAX_HOPS = 10  # how often a message may be a dead letter: consumers may name each other's topics
MAX_REASON_CHARS = 1000


@attrs.frozen(eq=False)
class DeadLetter:
    """A dead letter on its way, and the function that gets its outcome."""

    message: Message
    headers: Headers
    milliseconds: int | None
    done: Done
    handle: SendHandle

    @property
    def time_was_refused(self) -> bool:
        """Whether the backend refused only the timestamp, and may store the rest."""
        error = self.handle.error
        return isinstance(error, Unsupported) and error.capability == "timestamps_producer"


class DeadLetters:
    """The dead letters of one consumer: sends them, and reports the outcome of each."""

    def __init__(self, producer: Producer, *, with_times: bool = True) -> None:
        self._producer = producer
        self._with_times = with_times
        self._on_their_way: list[DeadLetter] = []
        self.sent = 0

    def __bool__(self) -> bool:
        return bool(self._on_their_way)

    def send(self, message: Message, reason: str, done: Done) -> None:
        """Send a message, and call ``done`` with its outcome. Raise if it cannot be queued.

        ``ConfigError`` means that the message went in circles between dead-letter topics.
        """
        hops = _hops(message)
        if hops >= MAX_HOPS:
            raise self._circular(message, hops)
        headers = (
            *((name, value) for name, value in message.headers if name not in {REASON, SOURCE, ATTEMPTS, HOPS}),
            (REASON, reason[:MAX_REASON_CHARS].encode()),
            (SOURCE, str(message.id).encode()),
            (ATTEMPTS, b"%d" % message.attempt),
            *([(HOPS, b"%d" % (hops + 1))] if hops else []),
        )
        milliseconds = message._batch.timestamps[message._index]
        if not self._with_times:
            self._submit(message, headers, None, done)
        elif 0 <= milliseconds <= LATEST_TIME_MS:
            self._submit(message, headers, milliseconds, done)
        else:
            self._submit_without_time(message, headers, milliseconds, done)

    def _submit_without_time(self, message: Message, headers: Headers, milliseconds: int, done: Done) -> None:
        """Send a message whose timestamp cannot be stored there, with the timestamp in a header."""
        kept = tuple((name, value) for name, value in headers if name != TIMESTAMP)
        self._submit(message, (*kept, (TIMESTAMP, b"%d" % milliseconds)), None, done)

    def _submit(self, message: Message, headers: Headers, milliseconds: int | None, done: Done) -> None:
        handle = self._producer.submit(message.value, key=message.key, headers=headers, timestamp=milliseconds)
        handle.note_seen()  # its outcome is reported here
        self._on_their_way.append(DeadLetter(message, headers, milliseconds, done, handle))

    def _circular(self, message: Message, hops: int) -> ConfigError:
        error = ConfigError(
            f"{message!r} was a dead letter {hops} times already, and is kept: "
            f"consumers name each other's topics as dead_letter",
            topic=message.topic,
            fix=f"Set a dead_letter topic that no consumer retries. To resend it on purpose, omit the header {HOPS}",
        )
        logger.error("%s", error)
        return error

    def collect(self) -> None:
        """Report the known outcomes."""
        for each in list(self._on_their_way):
            if not each.handle.done:
                continue
            self._on_their_way.remove(each)
            self._settle(each)

    def _settle(self, letter: DeadLetter) -> None:
        error = letter.handle.error
        if letter.milliseconds is not None and letter.time_was_refused:
            try:
                self._submit_without_time(letter.message, letter.headers, letter.milliseconds, letter.done)
            except Error as refused:
                error = refused
            else:
                return
        if error is None:
            self.sent += 1
        else:
            logger.warning("a dead letter for topic %r was not stored; trying again: %s", letter.handle.topic, error)
        letter.done(error)

    def close(self, deadline: Deadline) -> None:
        """Wait for the outstanding dead letters, and close the producer."""
        self._producer.close(deadline.remaining(math.inf) if deadline.timeout is not None else None)


_NUMBER = re.compile(rb"[0-9]{1,9}")


def _hops(message: Message) -> int:
    """Return how often a message was a dead letter."""
    known = [int(value) for name, value in message.headers if name == HOPS and value and _NUMBER.fullmatch(value)]
    return max(known, default=int(any(name == SOURCE for name, _ in message.headers)))
