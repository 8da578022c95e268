"""Hands records to the compiled part's sender, and settles them by its reports: one a run, with an outcome a row."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from mqplug import OutcomeUnknown
from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.compiled_sender import CompiledSender
from mqplug_kafka._cluster.errors import not_stored
from mqplug_kafka._produce.run_outcome import Outcome, RunOutcome
from mqplug_kafka._produce.single_report import SingleOutcome

if TYPE_CHECKING:
    from mqplug_kafka_native import Report

COLUMNS = ("value", "key", "headers", "timestamp")
ANY_TIME = sys.maxsize


class CompiledReport(RunOutcome):
    """The report on a run."""

    __slots__ = ("_one_by_one",)

    def produce(self, sender: CompiledSender, future_max: float) -> bool:
        """Hand the run to the sender. Return False, with nothing sent, if a record could not be stored as it is."""
        run = self.records
        columns = _columns(run)
        self._one_by_one = columns[2] is not None or columns[3] is not None
        latest = ANY_TIME if columns[3] is None else int((time.time() + future_max) * 1000)
        try:
            return sender.hand_over(self, run.topic, run.partition, columns, len(run), latest)
        except KafkaException as error:
            self.settle_refused(error)
            return True

    def take_report(self, report: Report) -> None:
        """Settle the run, or take note of a failure."""
        if report.error:
            self.note_failure(report.error)
        if not report.is_complete:
            return
        if not report.is_sound:
            self.settle_in_doubt()
        elif report.coordinates is not None:
            self.settle_stored(report.coordinates)
        else:
            self.settle_each(self._outcomes(report))

    def settle_in_doubt(self) -> None:
        """Settle a run of which the reports make no sense."""
        self.records.unknown(OutcomeUnknown("the reports on these records contradict each other"))
        self.tell({max(self.records.partition, 0): len(self.records)}, ())

    def _outcomes(self, report: Report) -> Iterator[tuple[int, Sending, Outcome]]:
        failed = {row: (code, sent) for row, code, sent in report.failures}
        given = self.records.partition
        partitions = report.partitions or [given] * len(self.records)
        for row, sending in enumerate(self.records.sendings()):
            code, sent = failed.get(row, (0, True))
            if not sent:
                sending.failed(not_stored(refusal(code, alone=self._one_by_one)))
            elif code:
                yield row, sending, (partitions[row], None, KafkaError(code))
            else:
                offset = report.offsets[row]
                yield row, sending, (partitions[row], offset if offset >= 0 else None, None)


class CompiledSingleReport(SingleOutcome):
    """The report on a record that goes alone."""

    __slots__ = ()

    def produce(self, sender: CompiledSender) -> None:
        """Hand the record to the sender. That it can be stored as it is was checked."""
        one = self.sending
        headers = (one.headers,) if one.headers else None
        columns = ((one.value,), (one.key,), headers, None if one.timestamp is None else (one.timestamp,))
        try:
            sender.hand_over(self, one.topic, one.partition, columns, 1, ANY_TIME)
        except KafkaException as error:
            self.settle_refused(error)

    def take_report(self, report: Report) -> None:
        """Settle the record."""
        if not report.is_complete:
            return
        partition = self.sending.partition if report.partitions is None else report.partitions[0]
        if report.failures:
            _, code, sent = report.failures[0]
            if sent:
                self.settle(max(partition, 0), None, KafkaError(code))
            else:
                self.settle_refused(refusal(code, alone=True))
        elif report.coordinates is not None:
            self.settle(partition, report.coordinates[0][0] if report.is_sound else None, None)
        else:
            self.settle(partition, report.offsets[0], None)


def refusal(code: int, *, alone: bool) -> KafkaError:
    """Return the error of a record that the library did not accept, in confluent-kafka's words."""
    error = KafkaError(code)
    return KafkaError(code, f"Unable to produce message: {error.str()}") if alone else error


def _columns(run: Run) -> Sequence[Any]:
    """Return values, keys, headers and timestamps, as Arrow arrays if they were sent as such."""
    arrow = run.arrow(COLUMNS)
    if arrow:
        return [arrow.get(name) for name in COLUMNS]
    return run.values, run.keys, run.headers, run.timestamps
