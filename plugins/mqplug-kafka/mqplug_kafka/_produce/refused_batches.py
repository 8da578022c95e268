"""The records whose batch was refused: sent again in smaller batches or one by one, or failed.

A broker refuses a whole batch if it is too large for the topic or if one of its records is invalid. None of its
records is stored then, so they may be sent again in smaller batches. To keep the order inside each partition, no more
records of the topic are handed to the client until all reports are in. A refused record fails if a later record of its
partition has overtaken it: as invalid if it is invalid itself, otherwise as part of a refused batch. The others are
sent again, and once they are settled, the held records follow.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from confluent_kafka import KafkaError

from mqplug import Error, OutcomeUnknown
from mqplug.spi import Sending
from mqplug_kafka._cluster.client_options import ALONE
from mqplug_kafka._cluster.errors import INVALID_RECORD_CODES, invalid_record, not_stored, refused_with_batch
from mqplug_kafka._cluster.shared_producer import ProducersBySize, SharedProducer
from mqplug_kafka._cluster.topic_metadata import LimitsOfTopics, TopicLimits
from mqplug_kafka._produce.outcomes import Refused

SMALLEST_GUESS_BYTES = 1024  # if the limit is unknown and this is too large, each record gets its own batch
NEVER: tuple[int, int] = (0, 0)


class RefusedBatches:
    """The refused records of one producer for one topic, until they are sent again."""

    def __init__(self, topic: str, limits: LimitsOfTopics, producers: ProducersBySize) -> None:
        self._topic = topic
        self._limits = limits
        self._producers = producers
        self.records: list[Refused] = []
        self.last_stored: dict[int, tuple[int, int]] = {}
        """By partition, the hand-over and row of the last stored record."""
        self.in_doubt = NEVER
        """The last hand-over that failed midway."""

    def send_again(self, send: Callable[[Sending, SharedProducer], None]) -> None:
        """Send the records again that no later record has overtaken, and settle the others. Nothing is in flight."""
        refused, self.records = self.records, []
        waiting = deque(each for each in sorted(refused, key=_order) if not self._has_failed(each))
        if not waiting:
            return
        invalid = any(each.error.code() in INVALID_RECORD_CODES for each in waiting)
        fits = not invalid and self._narrow(min(each.batch_bytes for each in waiting))
        producer = self._producers.of(self._limits.of(self._topic).batch_bytes if fits else ALONE)
        try:
            while waiting:
                send(waiting[0].sending, producer)
                waiting.popleft()
        except BaseException:
            interrupted = waiting.popleft().sending
            interrupted.unknown(OutcomeUnknown("the hand-over to the client was interrupted"))
            self.records.extend(waiting)
            raise

    def give_up(self) -> None:
        """Settle all records: none is sent again."""
        for each in self.records:
            self._give_up(each)
        self.records.clear()

    def _has_failed(self, refused: Refused) -> bool:
        """Return whether a refused record cannot be sent again. If it cannot, settle it."""
        sending, error = refused.sending, refused.error
        invalid = error.code() in INVALID_RECORD_CODES
        if refused.batch_bytes <= ALONE or (not invalid and _size(sending) >= refused.batch_bytes):
            sending.failed(self._invalid(refused) if invalid else not_stored(error))
            return True  # it was the only record of its batch
        stored = max(self.last_stored.get(refused.partition, NEVER), self.in_doubt)
        if stored > _order(refused):
            self._give_up(refused)
            return True
        return False

    def _give_up(self, refused: Refused) -> None:
        """Settle a refused record that is not sent again."""
        is_invalid = is_itself_invalid(refused.error, refused.sending, self._limits.of(self._topic))
        refused.sending.failed(self._invalid(refused) if is_invalid else refused_with_batch(refused.error))

    def _invalid(self, refused: Refused) -> Error:
        return invalid_record(refused.error, refused.sending, self._limits.of(self._topic).compacted)

    def _narrow(self, refused_bytes: int) -> bool:
        """Use smaller batches from now on. Return whether they certainly fit; otherwise their size is a guess."""
        limits = self._limits.of(self._topic)
        if limits.batch_bytes is None or limits.batch_bytes >= refused_bytes:
            self._limits.guess(self._topic, refused_bytes // 4 if refused_bytes > SMALLEST_GUESS_BYTES else ALONE)
            return False
        return not limits.guessed


def _order(refused: Refused) -> tuple[int, int]:
    return refused.number, refused.row


def _size(sending: Sending) -> int:
    headers = sum(len(name.encode()) + len(value or b"") for name, value in sending.headers)
    return len(sending.value or b"") + len(sending.key or b"") + headers


def is_itself_invalid(error: KafkaError, sending: Sending, limits: TopicLimits) -> bool:
    """Return whether a record itself is, or may be, the invalid one for which its batch was refused.

    If exactly one record of a batch is invalid, librdkafka 2.16 reports the others with the same code.
    """
    if error.code() not in {KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}:
        return False
    lacks_key = sending.key is None and limits.compacted is not False
    return lacks_key or (sending.timestamp is not None and not _is_in_time(sending.timestamp, limits.times))


def _is_in_time(moment: int, limits: tuple[int, int] | None) -> bool:
    """Return whether the broker certainly accepts this timestamp."""
    return limits is not None and -limits[0] <= moment - time.time() * 1000 <= limits[1]
