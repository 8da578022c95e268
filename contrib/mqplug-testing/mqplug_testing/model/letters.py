"""Dead letters: what becomes of a message whose attempts are used up, or that was rejected."""

from __future__ import annotations

from mqplug import Message
from mqplug_testing.model.consumers import Consumers
from mqplug_testing.model.logs import Content, Stored
from mqplug_testing.model.readings import Hand, Work
from mqplug_testing.model.rules import Outcome, check, value_of
from mqplug_testing.model.topics import Sent, Topics

REASON, SOURCE, ATTEMPTS = "mqplug-dead-reason", "mqplug-dead-source", "mqplug-dead-attempts"
HOPS, TIMESTAMP = "mqplug-dead-hops", "mqplug-dead-timestamp"


class DeadLetters:
    """The dead letters of all members."""

    def __init__(self, topics: Topics, consumers: Consumers) -> None:
        self._topics = topics
        self._consumers = consumers

    def last_attempt(self, consumer: str, message: str) -> bool:
        """Return whether a nack of this message makes it a dead letter."""
        model = self._consumers.open[consumer]
        work, row = self._work(consumer, message)
        return model.letters is not None and work is not None and work.attempts.get(row, 0) >= model.attempts

    def in_hand(self, consumer: str) -> str | None:
        """Return a message that a member has in hand, the one with the most attempts, or None."""
        works = [each for each in self._consumers.open[consumer].readings.values() if isinstance(each, Work)]
        held = [
            (work.attempts[row], self._topics.names[work.log.stored[row].id])
            for work in works if not (work.failed or work.log.deleted)
            for row, hand in work.hands.items() if hand is Hand.OPEN
        ]  # fmt: skip
        return max(held)[1] if held else None

    def _work(self, consumer: str, message: str) -> tuple[Work | None, int]:
        _, log, stored = self._topics.messages[message]
        work = self._consumers.open[consumer].readings.get(log.log)
        return (work if isinstance(work, Work) else None), log.stored.index(stored)

    def buried(self, consumer: str, message: str, reason: str, name: str, letter: Outcome, now_ms: int) -> None:
        """Judge a dead letter, which gets this name. Its message counts as acked."""
        letters = self._consumers.open[consumer].letters
        work, row = self._work(consumer, message)
        assert letters is not None
        assert work is not None
        source, rule = self._topics.messages[message][2], "rejected"
        if self.last_attempt(consumer, message):
            rule = "dead-letter"
        found: Message | None = value_of(letter, rule)
        check(found is not None, rule, f"a dead letter of {message}", letter)
        assert found is not None
        kept = tuple(each for each in found.headers if each[0] == TIMESTAMP)
        wanted = Content(source.content.value, source.content.key, _headers(source, reason, work.attempts[row]))
        told = tuple(each for each in found.headers if each[0] != TIMESTAMP)
        seen = Content(found.value, found.key, told)
        check(seen == wanted, rule, wanted, seen)
        timestamp = None if kept else source.content.timestamp
        content = Content(found.value, found.key, tuple(found.headers), timestamp)
        self._topics.buried(letters, Sent(name, content), found.id, (source.between[0], now_ms))
        work.ack(row)


def _headers(source: Stored, reason: str, attempt: int) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of a dead letter, except that of a timestamp."""
    own = dict(source.content.headers)
    hops = int(own.get(HOPS) or SOURCE in own)
    added = {REASON, SOURCE, ATTEMPTS, HOPS, TIMESTAMP}
    return (
        *(each for each in source.content.headers if each[0] not in added),
        (REASON, reason.encode()),
        (SOURCE, str(source.id).encode()),
        (ATTEMPTS, b"%d" % attempt),
        *([(HOPS, b"%d" % (hops + 1))] if hops else []),
    )
