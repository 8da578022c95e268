"""The outcomes of records that were handed to a sender: stored, failed or unknown, depending on the reports.

A record is handed over by itself, or in a run with others of its partition. Records that a broker refused with their
batch go to ``again``; without it, they have failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs
from confluent_kafka import KafkaError, KafkaException, Message

from mqplug import OutcomeUnknown
from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.errors import BATCH_REFUSED_CODES, NOT_STORED_CODES, maybe_stored, not_stored
from mqplug_kafka._cluster.sender import Result, Sender
from mqplug_kafka._produce.current_logs import CurrentLogs

if TYPE_CHECKING:
    from mqplug_kafka_native import Report


@attrs.frozen
class Refused:
    """A record that the broker refused together with its batch."""

    number: int
    """The number of its hand-over."""
    row: int
    partition: int
    batch_bytes: int
    """The batch size of the producer that sent it."""
    sending: Sending
    error: KafkaError


class SendsAgain(Protocol):
    """Takes the records that were refused with their batch, to send them again."""

    def refused_one(self) -> None:
        """Note that a record was refused, while other reports may still come."""
        ...

    def reported(self, number: int, stored: Mapping[int, int], refused: Sequence[Refused]) -> None:
        """Take the results of a hand-over: the last row that may be stored, by partition, and the refused records."""
        ...


class RecordOutcome:
    """The outcome of a record that is handed over by itself."""

    __slots__ = ("_again", "_batch_bytes", "_current_logs", "_number", "_sending")

    def __init__(
        self,
        sending: Sending,
        current_logs: CurrentLogs,
        again: SendsAgain | None = None,
        number: int = 0,
        batch_bytes: int = 0,
    ) -> None:
        self._sending = sending
        self._current_logs = current_logs
        self._again = again
        self._number = number
        self._batch_bytes = batch_bytes

    def hand_to(self, sender: Sender) -> None:
        """Hand over the record, which the caller has checked with ``unstorable``."""
        try:
            sender.send(self._sending, self)
        except KafkaException as error:
            self._settle_refused(error)

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take the report of confluent-kafka's producer."""
        self._settle(message.partition() or 0, message.offset(), error)

    def take_report(self, report: Report) -> None:
        """Take the report of the compiled part."""
        if not report.is_complete:
            return
        if report.coordinates is not None and report.is_sound:
            self._settle_stored(self._sending.partition, report.coordinates[0])
            return
        partition = self._sending.partition if report.partitions is None else report.partitions[0]
        if report.failures:
            _, code, sent = report.failures[0]
            if sent:
                self._settle(max(partition, 0), None, KafkaError(code))
            else:
                self._settle_refused(_refusal(code, alone=True))
        else:
            self._settle(partition, report.offsets[0] if report.coordinates is None else None, None)

    def _settle_stored(self, partition: int, place: tuple[int]) -> None:
        if self._again is not None:
            self._again.reported(self._number, {partition: 0}, ())
        self._current_logs.stored(self._sending, partition, place)

    def _settle_refused(self, error: KafkaError | KafkaException) -> None:
        """Settle a record that the client did not accept: it was never sent."""
        self._sending.failed(not_stored(error))
        if self._again is not None:
            self._again.reported(self._number, {}, ())

    def _settle(self, partition: int, offset: int | None, error: KafkaError | None) -> None:
        again = self._again
        if error is None and offset is not None and offset >= 0:
            self._settle_stored(partition, (offset,))
        elif error is not None and error.code() in BATCH_REFUSED_CODES and again is not None:
            again.refused_one()
            refused = Refused(self._number, 0, partition, self._batch_bytes, self._sending, error)
            again.reported(self._number, {}, (refused,))
        else:
            if again is not None:
                proven = error is not None and error.code() in NOT_STORED_CODES
                again.reported(self._number, {} if proven else {partition: 0}, ())
            _settle_failure(self._sending, error)


class RunOutcome:
    """The outcome of records that are handed over together."""

    __slots__ = ("_again", "_batch_bytes", "_current_logs", "_number", "_records")

    def __init__(
        self,
        records: Run,
        current_logs: CurrentLogs,
        again: SendsAgain | None = None,
        number: int = 0,
        batch_bytes: int = 0,
    ) -> None:
        self._records = records
        self._current_logs = current_logs
        self._again = again
        self._number = number
        self._batch_bytes = batch_bytes

    def hand_to(self, sender: Sender, future_max: float) -> bool:
        """Hand over the run. Return False, with nothing sent, if its records must be sent one by one."""
        try:
            return sender.send_run(self._records, self, future_max)
        except KafkaException as error:  # the client did not accept it
            self._records.failed(not_stored(error))
            self._report({}, ())
            return True

    def take_report(self, report: Report) -> None:
        """Take the report of the compiled part: settle the run, or note a failure."""
        if report.error:
            self.note_failure(report.error)
        if not report.is_complete:
            return
        if not report.is_sound:
            self._records.unknown(OutcomeUnknown("the reports on these records contradict each other"))
            self._report({max(self._records.partition, 0): len(self._records)}, ())
        elif report.coordinates is not None:
            self.settle_stored(report.coordinates)
        else:
            self.settle_each(self._results(report))

    def _results(self, report: Report) -> Iterator[tuple[int, Sending, Result]]:
        run = self._records
        failed = {row: (code, sent) for row, code, sent in report.failures}
        partitions = report.partitions or [run.partition] * len(run)
        for row, sending in enumerate(run.sendings()):
            code, sent = failed.get(row, (0, True))
            if not sent:
                one_by_one = run.headers is not None or run.timestamps is not None
                sending.failed(not_stored(_refusal(code, alone=one_by_one)))
            elif code:
                yield row, sending, (partitions[row], None, KafkaError(code))
            else:
                offset = report.offsets[row]
                yield row, sending, (partitions[row], offset if offset >= 0 else None, None)

    def note_failure(self, code: int) -> None:
        """Note that a record failed, while other reports may still come."""
        if self._again is not None and code in BATCH_REFUSED_CODES:
            self._again.refused_one()

    def settle_stored(self, coordinates: Sequence[tuple[int]]) -> None:
        """Settle a run that is stored in its partition, at these offsets."""
        self._report({self._records.partition: len(coordinates)}, ())
        self._current_logs.stored(self._records, self._records.partition, coordinates)

    def settle_each(self, results: Iterable[tuple[int, Sending, Result]]) -> None:
        """Settle each record by its own result. The results come with the record's row."""
        stored: list[tuple[Sending, int, int]] = []
        last: dict[int, int] = {}
        refused: list[Refused] = []
        for row, sending, (partition, offset, error) in results:
            if offset is not None:
                stored.append((sending, partition, offset))
            elif error is not None and error.code() in BATCH_REFUSED_CODES and self._again is not None:
                refused.append(Refused(self._number, row, partition, self._batch_bytes, sending, error))
            else:
                _settle_failure(sending, error)
            if error is None or error.code() not in NOT_STORED_CODES:
                last[partition] = row
        self._report(last, refused)
        for sending, partition, offset in stored:
            self._current_logs.stored(sending, partition, (offset,))

    def _report(self, stored: Mapping[int, int], refused: Sequence[Refused]) -> None:
        if self._again is not None:
            self._again.reported(self._number, stored, refused)


def _settle_failure(sending: Sending, error: KafkaError | None) -> None:
    """Settle a record as failed if the error proves that it is not stored, otherwise as unknown."""
    if error is None:
        sending.unknown(OutcomeUnknown("the record is stored, but the broker did not report its offset"))
    elif error.code() in NOT_STORED_CODES:
        sending.failed(not_stored(error))
    else:
        sending.unknown(maybe_stored(error))


def _refusal(code: int, *, alone: bool) -> KafkaError:
    """Return the error of a record that librdkafka did not accept, in confluent-kafka's words."""
    error = KafkaError(code)
    return KafkaError(code, f"Unable to produce message: {error.str()}") if alone else error
