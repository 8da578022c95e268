"""Sends through confluent-kafka's producer, and matches its delivery reports to the records of a run.

The client calls back for each record, but does not say for which one. It keeps the order inside a partition,
and a key has one partition. So the sorted offsets belong to the stored records in their send order.
Reports on failed records usually come in this order, too. Where their content differs, it identifies the failed ones.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.errors import not_stored
from mqplug_kafka._cluster.sender import RecordReports, Result, RunReports

Content = tuple[bytes | None, bytes | None]
"""The value and the key of a record."""


class PlainSender(Producer):
    """Confluent-kafka's producer, which calls back for each record."""

    is_unsound = False

    def send(self, record: Sending, reports: RecordReports) -> None:
        """As ``Sender.send``."""
        headers: Any = list(record.headers) if record.headers else None
        self.produce(
            record.topic, record.value, record.key, record.partition, reports,
            timestamp=record.timestamp or 0, headers=headers,
        )  # fmt: skip

    def send_run(self, run: Run, reports: RunReports, future_max: float) -> bool:
        """As ``Sender.send_run``, for values and keys: a run takes a third of the time. Refuse other fields."""
        if run.headers is not None or run.timestamps is not None:
            return False
        DeliveryReports(run, reports).produce(self)
        return True


class DeliveryReports:
    """Collects the reports on a run, and settles it when all have arrived."""

    __slots__ = ("_expected", "_failing", "_outcome", "_records", "_refused", "_reports", "_unsettled")

    def __init__(self, records: Run, outcome: RunReports) -> None:
        self._records = records
        self._outcome = outcome
        self._reports: list[Any] = []  # an offset or, where an offset is not enough, the message
        self._failing = False  # whether a report had an error
        self._expected = len(records)  # reports, once it is known which records the client accepted
        self._refused: dict[int, KafkaError] | None = None  # not accepted, by row; None: not known yet
        self._unsettled = [True]  # popped by the thread that settles the run

    def produce(self, producer: Producer) -> None:
        """Hand the records over."""
        sent = self._records
        if sent.keys is None:
            messages: list[dict[str, Any]] = [{"value": value} for value in sent.values]
        else:
            messages = [{"value": value, "key": key} for value, key in zip(sent.values, sent.keys, strict=True)]
        producer.produce_batch(sent.topic, messages, sent.partition, on_delivery=self._callback())
        refused = {row: each["_error"] for row, each in enumerate(messages) if "_error" in each}
        self._expected -= len(refused)
        self._refused = refused
        self._settle_if_complete()

    def _callback(self) -> Callable[[KafkaError | None, Message], None]:
        """Return the function that takes the reports. It runs for each record, so it does little."""
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
        except IndexError:  # another thread was faster
            return
        if self._failing or self._refused:
            self._outcome.settle_each(self._results())
        else:
            self._outcome.settle_stored(list(zip(sorted(self._reports), strict=True)))

    # where records failed, or the client chose the partitions ---------------------------------------

    def _results(self) -> Iterator[tuple[int, Sending, Result]]:
        accepted = self._accepted()
        contents = [(sending.value, sending.key) for _, sending in accepted]
        given = self._records.partition
        results = _by_key(self._reports, contents) if given < 0 else _in_order(self._reports, contents, given)
        for (row, sending), result in zip(accepted, results, strict=True):
            yield row, sending, result

    def _accepted(self) -> list[tuple[int, Sending]]:
        """Settle the records that the client did not accept, and return the others with their rows."""
        accepted = []
        for row, sending in enumerate(self._records.sendings()):
            if self._refused and row in self._refused:
                sending.failed(not_stored(self._refused[row]))
            else:
                accepted.append((row, sending))
        return accepted


def _in_order(reports: Sequence[int | Message], contents: Sequence[Content], partition: int) -> list[Result]:
    """Return the results of the records of one partition. Find a failed one by its content if it is out of order."""
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


def _by_key(reports: Sequence[Message], contents: Sequence[Content]) -> list[Result]:
    """Return the results of records whose partitions the client chose by their keys."""
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
    results: list[Result] = []
    for content in contents:
        in_partition = stored[partitions.get(content[1], -1)]
        if in_partition and in_partition[0][1] == content:
            results.append((partitions[content[1]], in_partition.popleft()[0], None))
        else:
            report = failed[content].popleft()
            results.append((report.partition() or 0, None, report.error()))
    return results
