"""Matches delivery reports to the records that were handed to the native client together, and settles them.

The native client calls back for each record, but does not say for which one. It keeps the order inside a partition,
and a key has one partition. So the sorted offsets belong to the stored records in the order in which they were sent.
Reports on failed records usually come in that order, too. If their content says otherwise, it tells which ones failed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.errors import not_stored
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.run_outcome import Outcome, RunOutcome, SendsAgain

Content = tuple[bytes | None, bytes | None]
"""The value and the key of a record."""


class DeliveryReports:
    """Collects the reports on a run, and settles it when all have come."""

    __slots__ = ("_expected", "_failing", "_outcome", "_records", "_refused", "_reports", "_unsettled")

    def __init__(self, records: Run, current_logs: CurrentLogs, again: SendsAgain | None = None) -> None:
        self._records = records
        self._outcome = RunOutcome(records, current_logs, again)
        self._reports: list[Any] = []  # an offset or, where that does not say enough, the message
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
            self._outcome.settle_refused(error)
            return
        refused = {row: each["_error"] for row, each in enumerate(messages) if "_error" in each}
        self._expected -= len(refused)
        self._refused = refused
        self._settle_if_complete()

    def _callback(self) -> Callable[[KafkaError | None, Message], None]:
        """Return the function that takes the reports. It is called for each record, so it does little."""
        reports, expected = self._reports, self._expected
        take, known_partition = reports.append, self._records.partition >= 0

        def take_report(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None and known_partition:
                take(offset)
            else:
                self._take_message(error, message)
            if len(reports) == expected or self._refused:
                self._settle_if_complete()

        return take_report

    def _take_message(self, error: KafkaError | None, message: Message) -> None:
        self._failing = True  # before the report counts
        self._reports.append(message)
        if error is not None:
            self._outcome.note_failure(error.code())

    def _settle_if_complete(self) -> None:
        if self._refused is None or len(self._reports) < self._expected:
            return
        try:
            self._unsettled.pop()
        except IndexError:  # another thread was quicker
            return
        if self._failing or self._refused:
            self._outcome.settle_each(self._outcomes())
        else:
            self._outcome.settle_stored(list(zip(sorted(self._reports), strict=True)))

    # where records failed, or the native client chose the partitions ---------------------------------------

    def _outcomes(self) -> Iterator[tuple[int, Sending, Outcome]]:
        accepted = self._accepted()
        contents = [(sending.value, sending.key) for _, sending in accepted]
        given = self._records.partition
        outcomes = _by_key(self._reports, contents) if given < 0 else _in_order(self._reports, contents, given)
        for (row, sending), outcome in zip(accepted, outcomes, strict=True):
            yield row, sending, outcome

    def _accepted(self) -> list[tuple[int, Sending]]:
        """Settle the records that the native client did not accept, and return the others with their rows."""
        accepted = []
        for row, sending in enumerate(self._records.sendings()):
            if self._refused and row in self._refused:
                sending.failed(not_stored(self._refused[row]))
            else:
                accepted.append((row, sending))
        return accepted


def _in_order(reports: Sequence[int | Message], contents: Sequence[Content], partition: int) -> list[Outcome]:
    """Return the outcomes of the records of one partition. If a failed one is not in its place, find it by content."""
    failed: dict[int, KafkaError | None] = {}
    by_content: dict[Content, list[int]] = {}
    for place, report in enumerate(reports):
        if isinstance(report, int):
            continue
        content, row = (report.value(), report.key()), place
        if contents[row] != content or row in failed:
            by_content = by_content or _rows_by_content(contents)
            row = next(each for each in by_content[content] if each not in failed)
        failed[row] = report.error()
    offsets = iter(sorted(report for report in reports if isinstance(report, int)))
    rows = range(len(contents))
    return [(partition, None, failed[row]) if row in failed else (partition, next(offsets), None) for row in rows]


def _rows_by_content(contents: Sequence[Content]) -> dict[Content, list[int]]:
    rows: defaultdict[Content, list[int]] = defaultdict(list)
    for row, content in enumerate(contents):
        rows[content].append(row)
    return rows


def _by_key(reports: Sequence[Message], contents: Sequence[Content]) -> list[Outcome]:
    """Return the outcomes of records whose partitions the native client chose by their keys."""
    partitions: dict[bytes | None, int] = {}
    stored: defaultdict[int, deque[tuple[int, Content]]] = defaultdict(deque)
    failed: defaultdict[Content, deque[Message]] = defaultdict(deque)
    for report in sorted(reports, key=lambda report: report.offset() or 0):
        content = report.value(), report.key()
        offset, partition = report.offset(), report.partition()
        if report.error() is None and offset is not None and partition is not None:
            partitions[report.key()] = partition
            stored[partition].append((offset, content))
        else:
            failed[content].append(report)
    outcomes: list[Outcome] = []
    for content in contents:
        in_partition = stored[partitions.get(content[1], -1)]
        if in_partition and in_partition[0][1] == content:
            outcomes.append((partitions[content[1]], in_partition.popleft()[0], None))
        else:
            report = failed[content].popleft()
            outcomes.append((report.partition() or 0, None, report.error()))
    return outcomes
