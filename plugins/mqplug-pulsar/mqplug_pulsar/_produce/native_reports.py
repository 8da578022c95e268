"""Sends with one call of the compiled part for each run, which then has its reports as arrays.

The native client's threads call no Python. They leave finished runs in a box, from which the thread that pumps takes
them. What the compiled part cannot send exactly as it is, goes the plain way with the same native producer: so
everything stays in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

from _pulsar import Result

import mqplug
from mqplug.spi import Run, Sending
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._format.escapes import headers_to_properties, key_to_text
from mqplug_pulsar._produce.plain_reports import SentRecord, SentRun
from mqplug_pulsar._produce.sent import Lane, Sent, settle_duplicate, settle_failed
from mqplug_pulsar._produce.sent_spans import coordinates, details, doubt, rows

RESULTS = {int(result): result for result in Result.__members__.values()}
NOT_REPORTED = -1
RESULTS[NOT_REPORTED] = Result.AlreadyClosed  # it ended with its native producer
ODD = (TypeError, ValueError, OverflowError)
"""What the compiled part raises, before it sends anything, for a record that it cannot send exactly as it is."""
ARROW_COLUMNS = ("value", "key", "timestamp")

Columns = tuple[Any, Any, Any, Any]
"""Values, keys, headers and timestamps: each a sequence, an Arrow array, or None."""


class NativeSent(Sent, Protocol):
    """What the compiled part has sent."""

    lane: Lane
    report: Any | None
    """The compiled part's report; None if it went the plain way."""

    def __len__(self) -> int: ...


class NativeReports:
    """The box into which the runs of a producer are reported."""

    def __init__(self, native: Any, *, in_order: bool) -> None:
        self._box = native.ReportBox(key_to_text, headers_to_properties)
        self._numbers = count()
        self._sent: dict[int, NativeSent] = {}
        self._arrived: list[tuple[int, Any]] = []  # an interrupt leaves in it what is not settled yet
        self._in_order = in_order
        self._is_checked = False
        self._is_trusted = True

    def record(self, sending: Sending, lane: Lane) -> Sent:
        return NativeRecord(sending, lane, self) if self._is_trusted else SentRecord(sending, lane)

    def run(self, run: Run, lane: Lane) -> Sent:
        return NativeRun(run, lane, self) if self._is_trusted else SentRun(run, lane)

    def send(self, native: Any, sent: NativeSent, count: int, columns: Columns) -> bool:
        """Hand records to a native producer. Return False if they have to go the plain way."""
        number = next(self._numbers)
        self._sent[number] = sent
        try:
            sent.report = self._box.send(native, number, count, *columns)
        except BaseException as error:
            del self._sent[number]
            if isinstance(error, ODD):
                return False
            raise
        return True

    def wait(self, timeout: float) -> None:
        arrived = self._arrived
        self._box.wait(0 if arrived else timeout, arrived)
        while arrived:
            number, report = arrived[0]
            if (sent := self._sent.get(number)) is not None:
                sent.report = report
                self._take(sent, report)
                self._sent.pop(number, None)
            del arrived[0]

    def _take(self, sent: NativeSent, report: Any) -> None:
        if not self._is_checked:
            self._check(report, len(sent))
        if not self._is_trusted:
            sent.unknown(mqplug.OutcomeUnknown("mqplug-pulsar-native reported nonsense: the message may be stored"))
        sent.lane.take(sent)

    def _check(self, report: Any, count: int) -> None:
        """Look whether the first reports make sense. If not, everything goes the plain way from now on."""
        spans, others = report.read()
        if not others:
            self._is_checked = True
            if (reason := doubt(spans, count, in_order=self._in_order)) is not None:
                self._is_trusted = False
                compiled_part.give_up("sending", f"its first reports make no sense: {reason}")

    def ring(self) -> None:
        self._box.ring()


class NativeRecord(SentRecord):
    """One record."""

    __slots__ = ("_sender", "lane", "report")

    def __init__(self, sending: Sending, lane: Lane, sender: NativeReports) -> None:
        super().__init__(sending, lane)
        self._sender = sender
        self.lane = lane
        self.report: Any | None = None

    def __len__(self) -> int:
        return 1

    @property
    def is_complete(self) -> bool:
        return super().is_complete if self.report is None else self.report.is_complete()

    def hand_over(self, native: Any) -> None:
        if not self._sender.send(native, self, 1, _columns_of_record(self._sending)):
            super().hand_over(native)

    def settle(self) -> None:
        if self.report is None:
            super().settle()
        else:
            _settle_each((self._sending,), self.report, self.lane)


class NativeRun(SentRun):
    """The records of a run."""

    __slots__ = ("_sender", "lane", "report")

    def __init__(self, run: Run, lane: Lane, sender: NativeReports) -> None:
        super().__init__(run, lane)
        self._sender = sender
        self.lane = lane
        self.report: Any | None = None

    def __len__(self) -> int:
        return len(self._run)

    @property
    def is_complete(self) -> bool:
        return super().is_complete if self.report is None else self.report.is_complete()

    def hand_over(self, native: Any) -> None:
        if not self._sender.send(native, self, len(self._run), _columns_of_run(self._run)):
            super().hand_over(native)

    def settle(self) -> None:
        if self.report is None:
            super().settle()
            return
        spans, others = self.report.read()
        if others or any(ledger < 0 for _, _, ledger, *_ in spans):
            _settle_each(self._run.sendings(), self.report, self.lane)
        else:
            self._run.stored(self.lane.log, coordinates(spans, len(self)), details(spans, len(self)))


def _columns_of_record(record: Sending) -> Columns:
    return (record.value,), (record.key,), (record.headers,), (record.timestamp,)


def _columns_of_run(run: Run) -> Columns:
    arrays = run.arrow(ARROW_COLUMNS)
    if not arrays:
        return run.values, run.keys, run.headers, run.timestamps
    return arrays["value"], arrays.get("key"), run.headers, arrays.get("timestamp")


def _settle_each(sendings: Sequence[Sending], report: Any, lane: Lane) -> None:
    """Settle each record by its own report."""
    spans, others = report.read()
    for span in spans:
        for row, place, detail in rows(span):
            if place[0] >= 0:
                sendings[row].stored(lane.log, place, detail)
            else:
                settle_duplicate(sendings[row])
    for row, result in others:
        settle_failed(sendings[row], RESULTS.get(result, Result.UnknownError), lane)
