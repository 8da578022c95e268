"""Settles the records of a run, once it is known what became of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import attrs
from confluent_kafka import KafkaError, KafkaException

from mqplug import OutcomeUnknown
from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.errors import BATCH_REFUSED_CODES, NOT_STORED_CODES, maybe_stored, not_stored
from mqplug_kafka._produce.current_logs import CurrentLogs

Outcome = tuple[int, int | None, KafkaError | None]
"""The partition, the offset of a stored record, the error of another. Stored at an unknown offset, it has neither."""


@attrs.frozen
class Refused:
    """A record that the broker refused together with its batch."""

    row: int
    partition: int
    sending: Sending
    error: KafkaError


class SendsAgain(Protocol):
    """Takes the records that were refused with their batch, to send them again."""

    def refused_one(self) -> None:
        """Hear that a record was refused, while other reports may still come."""
        ...

    def reported(self, stored: Mapping[int, int], refused: Sequence[Refused]) -> None:
        """Take the outcome of a hand-over: the last row that may be stored, by partition, and the refused records."""
        ...


class RunOutcome:
    """What became of the records that were handed over together.

    What a broker refused with its batch goes to ``again``; without it, these records have failed.
    """

    __slots__ = ("_again", "_current_logs", "records")

    def __init__(self, records: Run, current_logs: CurrentLogs, again: SendsAgain | None = None) -> None:
        self.records = records
        self._current_logs = current_logs
        self._again = again

    def note_failure(self, code: int) -> None:
        """Take note that a record failed, while other reports may still come."""
        if self._again is not None and code in BATCH_REFUSED_CODES:
            self._again.refused_one()

    def settle_refused(self, error: KafkaException) -> None:
        """Settle a run that the native client did not accept."""
        self.records.failed(not_stored(error))
        self.tell({}, ())

    def settle_stored(self, coordinates: Sequence[tuple[int]]) -> None:
        """Settle a run that is stored in its partition, at these offsets."""
        records, logs = self.records, self._current_logs
        self.tell({records.partition: len(coordinates)}, ())
        logs.when_known(records.topic, lambda: records.stored(logs.log(records.topic, records.partition), coordinates))

    def settle_each(self, outcomes: Iterable[tuple[int, Sending, Outcome]]) -> None:
        """Settle each record, of which the row is given."""
        stored: list[tuple[Sending, int, int]] = []
        last: dict[int, int] = {}
        refused: list[Refused] = []
        for row, sending, (partition, offset, error) in outcomes:
            if offset is not None:
                stored.append((sending, partition, offset))
            elif error is not None and error.code() in BATCH_REFUSED_CODES and self._again is not None:
                refused.append(Refused(row, partition, sending, error))
            else:
                settle_failure(sending, error)
            if error is None or error.code() not in NOT_STORED_CODES:
                last[partition] = row
        self.tell(last, refused)
        if stored:
            self._current_logs.when_known(self.records.topic, lambda: self._store(stored))

    def _store(self, stored: Sequence[tuple[Sending, int, int]]) -> None:
        for sending, partition, offset in stored:
            sending.stored(self._current_logs.log(sending.topic, partition), (offset,))

    def tell(self, stored: Mapping[int, int], refused: Sequence[Refused]) -> None:
        """Pass on what ``SendsAgain.reported`` takes."""
        if self._again is not None:
            self._again.reported(stored, refused)


def settle_failure(sending: Sending, error: KafkaError | None) -> None:
    """Settle a record as failed if the error proves that it is not stored, else as unknown."""
    if error is None:
        sending.unknown(OutcomeUnknown("the record is stored, but the broker did not report its offset"))
    elif error.code() in NOT_STORED_CODES:
        sending.failed(not_stored(error))
    else:
        sending.unknown(maybe_stored(error))
