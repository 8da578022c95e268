"""Matches delivery reports to the records that were handed to the native client together, and settles them.

The native client calls back for each record, but does not say for which one. It keeps the order inside a partition,
and a key has one partition. So the sorted offsets belong to the stored records in the order in which they were sent.
Failed records are found by their content: among equal records it makes no difference which one failed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mqplug import OutcomeUnknown
from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.errors import NOT_STORED_CODES, maybe_stored, not_stored
from mqplug_kafka._produce.current_logs import CurrentLogs

FailedRecord = tuple[KafkaError | None, bytes | None, bytes | None]
"""The error, and the record's value and key. Without an error it is stored at an unknown offset."""


class DeliveryReports:
    """Collects the reports on a run, and settles them when all have come."""

    __slots__ = (
        "_current_logs", "_expected", "_failures", "_offsets", "_partitions", "_placed", "_records", "_refused",
    )  # fmt: skip

    def __init__(self, records: Run, current_logs: CurrentLogs) -> None:
        self._records = records
        self._current_logs = current_logs
        self._offsets: list[int] = []  # the offsets of the stored records
        self._placed: list[tuple[int, int]] = []  # with their partitions, if the native client chooses them
        self._partitions: dict[bytes | None, int] | None = {} if records.partition < 0 else None  # by key
        self._failures: list[FailedRecord] = []
        self._refused: Mapping[int, KafkaError] | None = None  # records not accepted, by row; None: not known yet
        self._expected = len(records)  # with this many offsets the group may be complete

    def produce(self, native: Producer) -> None:
        """Hand the records to the native client."""
        sent = self._records
        if sent.keys is None:
            messages: list[dict[str, Any]] = [{"value": value} for value in sent.values]
        else:
            messages = [{"value": value, "key": key} for value, key in zip(sent.values, sent.keys, strict=True)]
        try:
            native.produce_batch(sent.topic, messages, sent.partition, on_delivery=self)
        except KafkaException as error:
            sent.failed(not_stored(error))
            return
        self._refused = {row: each["_error"] for row, each in enumerate(messages) if "_error" in each}
        if self._refused:
            self._expected = 0
        self._settle_if_complete()

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take one delivery report."""
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            if self._partitions is not None:
                partition = self._partitions[message.key()] = message.partition() or 0
                self._placed.append((partition, offset))
            self._offsets.append(offset)
        else:
            self._failures.append((error, message.value(), message.key()))
            self._expected = 0
        if len(self._offsets) >= self._expected:
            self._settle_if_complete()

    def _settle_if_complete(self) -> None:
        refused = self._refused
        if refused is None or len(self._offsets) + len(self._failures) + len(refused) < len(self._records):
            return
        simple = self._partitions is None and not refused and not self._failures
        self._current_logs.when_known(self._records.topic, self._settle_all if simple else self._settle_each)

    def _settle_all(self) -> None:
        sent = self._records
        log = self._current_logs.log(sent.topic, sent.partition)
        sent.stored(log, list(zip(sorted(self._offsets), strict=True)))

    def _settle_each(self) -> None:
        sendings = self._records.sendings()
        offsets: defaultdict[int, deque[int]] = defaultdict(deque)
        if self._partitions is None:
            offsets[self._records.partition].extend(sorted(self._offsets))
        for partition, offset in sorted(self._placed):
            offsets[partition].append(offset)
        for row in self._stored_rows(sendings):
            sending = sendings[row]
            partition = sending.partition if self._partitions is None else self._partitions[sending.key]
            sending.stored(self._current_logs.log(sending.topic, partition), (offsets[partition].popleft(),))

    def _stored_rows(self, sendings: Sequence[Sending]) -> Sequence[int]:
        """Settle the failed records, and return the rows of the stored ones."""
        if not self._refused and not self._failures:
            return range(len(sendings))
        refused = self._refused or {}
        for row, error in refused.items():
            sendings[row].failed(not_stored(error))
        rows: defaultdict[tuple[bytes | None, bytes | None], deque[int]] = defaultdict(deque)
        for row, sending in enumerate(sendings):
            if row not in refused:
                rows[sending.value, sending.key].append(row)
        for failure, value, key in self._failures:
            settle_failure(sendings[rows[value, key].popleft()], failure)
        return sorted(chain.from_iterable(rows.values()))


def settle_failure(sending: Sending, error: KafkaError | None) -> None:
    """Settle a record as failed if the error proves that it is not stored, else as unknown."""
    if error is None:
        sending.unknown(OutcomeUnknown("the record is stored, but the broker did not report its offset"))
    elif error.code() in NOT_STORED_CODES:
        sending.failed(not_stored(error))
    else:
        sending.unknown(maybe_stored(error))
