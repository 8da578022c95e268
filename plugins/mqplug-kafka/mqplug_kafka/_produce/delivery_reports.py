"""Matches delivery reports to the records that were handed to the native client together, and settles them.

The native client calls back for each record, but does not say for which one. It keeps the order inside a partition,
and a key has one partition. So the sorted offsets belong to the stored records in the order in which they were sent.
If some failed, records are found by their content: among equal ones the first are taken to be the stored ones, which
makes no difference, for the log looks the same.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mqplug import OutcomeUnknown
from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.errors import BATCH_REFUSED_CODES, NOT_STORED_CODES, maybe_stored, not_stored
from mqplug_kafka._produce.current_logs import CurrentLogs

Content = tuple[bytes | None, bytes | None]
"""The value and the key of a record."""


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


class DeliveryReports:
    """Collects the reports on a run, and settles them when all have come.

    What a broker refused with its batch goes to ``again``; without it, these records have failed.
    """

    __slots__ = ("_again", "_current_logs", "_expected", "_failing", "_messages", "_records", "_refused", "_unsettled")

    def __init__(self, records: Run, current_logs: CurrentLogs, again: SendsAgain | None = None) -> None:
        self._records = records
        self._current_logs = current_logs
        self._again = again
        self._messages: list[Message] = []
        self._failing = False  # whether a report had an error
        self._expected = len(records)  # reports, once it is known which records the native client accepted
        self._refused: dict[int, KafkaError] | None = None  # not accepted, by row; None: not known yet
        self._unsettled = [True]  # popped by the thread that settles the run

    def produce(self, native: Producer) -> None:
        """Hand the records to the native client."""
        sent = self._records
        if sent.keys is None:
            messages: list[dict[str, Any]] = [{"value": value} for value in sent.values]
        else:
            messages = [{"value": value, "key": key} for value, key in zip(sent.values, sent.keys, strict=True)]
        try:
            native.produce_batch(sent.topic, messages, sent.partition, on_delivery=self._callback())
        except KafkaException as error:
            sent.failed(not_stored(error))
            self._tell({}, ())
            return
        refused = {row: each["_error"] for row, each in enumerate(messages) if "_error" in each}
        self._expected -= len(refused)
        self._refused = refused
        self._settle_if_complete()

    def _callback(self) -> Callable[[KafkaError | None, Message], None]:
        """Return the function that takes the reports. It is called for each record, so it does little."""
        messages, expected = self._messages, self._expected
        take = messages.append

        def take_report(error: KafkaError | None, message: Message) -> None:
            take(message)
            if error is not None:
                self._take_error(error)
            if len(messages) == expected or self._refused:
                self._settle_if_complete()

        return take_report

    def _take_error(self, error: KafkaError) -> None:
        self._failing = True
        if self._again is not None and error.code() in BATCH_REFUSED_CODES:
            self._again.refused_one()

    def _settle_if_complete(self) -> None:
        if self._refused is None or len(self._messages) < self._expected:
            return
        try:
            self._unsettled.pop()
        except IndexError:  # another thread was quicker
            return
        offsets = self._plain_offsets()
        if offsets is not None:
            self._tell({self._records.partition: len(offsets)}, ())
            self._current_logs.when_known(self._records.topic, lambda: self._settle_all(offsets))
        else:
            self._settle_each()

    def _plain_offsets(self) -> list[int] | None:
        """Return the offsets of the records if all are stored in the run's own partition, else None."""
        if self._refused or self._failing or self._records.partition < 0:
            return None
        offsets = [message.offset() for message in self._messages]
        known = [offset for offset in offsets if offset is not None and offset >= 0]
        known.sort()
        return known if len(known) == len(offsets) else None

    def _settle_all(self, offsets: list[int]) -> None:
        sent = self._records
        log = self._current_logs.log(sent.topic, sent.partition)
        sent.stored(log, list(zip(offsets, strict=True)))

    def _tell(self, stored: Mapping[int, int], refused: Sequence[Refused]) -> None:
        if self._again is not None:
            self._again.reported(stored, refused)

    # where records failed, or the native client chose the partitions ---------------------------------------

    def _settle_each(self) -> None:
        sendings = self._records.sendings()
        found = _ReportsByContent(self._messages)
        stored: list[tuple[Sending, int, int]] = []
        last: dict[int, int] = {}
        refused: list[Refused] = []
        for row, sending in enumerate(sendings):
            if self._refused and row in self._refused:
                sending.failed(not_stored(self._refused[row]))
                continue
            partition, offset, error = found.take((sending.value, sending.key), self._records.partition)
            if offset is not None:
                stored.append((sending, partition, offset))
            if error is not None and error.code() in BATCH_REFUSED_CODES and self._again is not None:
                refused.append(Refused(row, partition, sending, error))
            elif offset is None:
                settle_failure(sending, error)
            if error is None or error.code() not in NOT_STORED_CODES:
                last[partition] = row
        self._tell(last, refused)
        if stored:
            self._current_logs.when_known(self._records.topic, lambda: self._settle_stored(stored))

    def _settle_stored(self, stored: Sequence[tuple[Sending, int, int]]) -> None:
        for sending, partition, offset in stored:
            sending.stored(self._current_logs.log(sending.topic, partition), (offset,))


class _ReportsByContent:
    """The reports on a run, taken record by record in the order in which they were sent."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._stored: defaultdict[int, deque[tuple[int, Content]]] = defaultdict(deque)
        self._failed: defaultdict[Content, deque[tuple[int, KafkaError | None]]] = defaultdict(deque)
        self._partitions: dict[bytes | None, int] = {}
        stored = []
        for message in messages:
            offset, partition, error = message.offset(), message.partition() or 0, message.error()
            content = message.value(), message.key()
            if error is None and offset is not None and offset >= 0:
                self._partitions[message.key()] = partition
                stored.append((partition, offset, content))
            else:
                self._failed[content].append((partition, error))
        for partition, offset, content in sorted(stored, key=lambda each: each[:2]):
            self._stored[partition].append((offset, content))

    def take(self, content: Content, partition: int) -> tuple[int, int | None, KafkaError | None]:
        """Return partition, offset and error of the next record. If both are None, its offset is not known."""
        if partition < 0:
            partition = self._partitions.get(content[1], partition)
        stored = self._stored[partition]
        if stored and stored[0][1] == content:
            return partition, stored.popleft()[0], None
        if self._failed[content]:
            where, error = self._failed[content].popleft()
            return where, None, error
        return partition, None, None


def settle_failure(sending: Sending, error: KafkaError | None) -> None:
    """Settle a record as failed if the error proves that it is not stored, else as unknown."""
    if error is None:
        sending.unknown(OutcomeUnknown("the record is stored, but the broker did not report its offset"))
    elif error.code() in NOT_STORED_CODES:
        sending.failed(not_stored(error))
    else:
        sending.unknown(maybe_stored(error))
