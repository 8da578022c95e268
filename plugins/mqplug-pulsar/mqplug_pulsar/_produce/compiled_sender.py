"""Hands records over with one call of the compiled part for each run, which collects the reports as arrays.

The client's threads call no Python. They put finished runs in a box, from which the pumping thread takes them. Records
that the compiled part cannot send unchanged take the plain path with the same client's producer, so the order holds.

Ids of stored messages are spans: consecutive messages of one batch are one span.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, repeat
from typing import Any, TypeVar, overload

from _pulsar import Result

import mqplug
from mqplug.spi import Numbers, Run, Sending
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._format.escapes import headers_to_properties, key_to_text
from mqplug_pulsar._produce.client_sender import ClientSender, Lane, settle_duplicate, settle_failed

RESULTS = {int(result): result for result in Result.__members__.values()}
NOT_REPORTED = -1
RESULTS[NOT_REPORTED] = Result.AlreadyClosed  # it ended with the client's producer
ODD = (TypeError, ValueError, OverflowError)
"""Errors that the compiled part raises, before it sends anything, for a record that it cannot send unchanged."""
ARROW_COLUMNS = ("value", "key", "timestamp")

Columns = tuple[Any, Any, Any, Any]
"""Values, keys, headers and timestamps: each a sequence, an Arrow array, or None."""


class CompiledSender:
    """Hands each run over with one call of the compiled part, and takes the reports out of its box."""

    def __init__(self, native: Any, *, in_order: bool) -> None:
        self._box = native.ReportBox(key_to_text, headers_to_properties)
        self._numbers = count()
        self._plain = ClientSender()
        self._pending: dict[int, CompiledPending] = {}
        self._arrived: list[tuple[int, Any]] = []  # after an interrupt, it still holds the unsettled reports
        self._in_order = in_order
        self._is_checked = False
        self._is_trusted = True

    def send_record(self, record: Sending, native: Any, lane: Lane) -> None:
        columns = (record.value,), (record.key,), (record.headers,), (record.timestamp,)
        if not self._send(native, CompiledRecord(record, lane), 1, columns):
            self._plain.send_record(record, native, lane)

    def send_run(self, run: Run, native: Any, lane: Lane) -> None:
        if not self._send(native, CompiledRun(run, lane), len(run), _columns(run)):
            self._plain.send_run(run, native, lane)

    def _send(self, native: Any, pending: CompiledPending, count: int, columns: Columns) -> bool:
        """Hand records over to a client's producer. Return False if they must take the plain path."""
        if not self._is_trusted:
            return False
        number = next(self._numbers)
        pending.lane.begin(pending)
        self._pending[number] = pending
        try:
            pending.report = self._box.send(native, number, count, *columns)
        except BaseException as error:
            del self._pending[number]
            if not isinstance(error, ODD):
                raise
            pending.lane.withdraw(pending)
            return False
        return True

    def flush(self, native: Any) -> None:
        self._box.flush(native)

    def wait(self, timeout: float) -> None:
        arrived = self._arrived
        self._box.wait(0 if arrived else timeout, arrived)
        while arrived:
            number, report = arrived[0]
            if (pending := self._pending.get(number)) is not None:
                pending.report = report
                self._take(pending, report)
                self._pending.pop(number, None)
            del arrived[0]

    def _take(self, pending: CompiledPending, report: Any) -> None:
        if not self._is_checked:
            self._check(report, len(pending))
        if not self._is_trusted:
            pending.unknown(
                mqplug.OutcomeUnknown(
                    "mqplug-pulsar-native returned an inconsistent report: the message may or may not be stored"
                )
            )
        pending.lane.take(pending)

    def _check(self, report: Any, count: int) -> None:
        """Check that the first reports are consistent. If not, all later records take the plain path."""
        spans, others = report.read()
        if not others:
            self._is_checked = True
            if (reason := doubt(spans, count, in_order=self._in_order)) is not None:
                self._is_trusted = False
                compiled_part.refuse("sends", f"its first reports are inconsistent: {reason}")

    def ring(self) -> None:
        self._box.ring()


class CompiledPending(ABC):
    """Records that were handed over together, and the compiled part's report on them."""

    __slots__ = ("lane", "report")

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.report: Any | None = None
        """None during the hand-over, and if this was interrupted."""

    @property
    def is_complete(self) -> bool:
        return self.report is not None and bool(self.report.is_complete())

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def settle(self) -> None: ...

    @abstractmethod
    def unknown(self, error: mqplug.Error) -> None: ...

    def _spans(self) -> tuple[Sequence[Span], Sequence[tuple[int, int]]]:
        """Return the ids of stored records, and the results of the others."""
        if self.report is None:
            return (), [(row, NOT_REPORTED) for row in range(len(self))]
        found: tuple[Sequence[Span], Sequence[tuple[int, int]]] = self.report.read()
        return found


class CompiledRecord(CompiledPending):
    """One record."""

    __slots__ = ("_record",)

    def __init__(self, record: Sending, lane: Lane) -> None:
        super().__init__(lane)
        self._record = record

    def __len__(self) -> int:
        return 1

    def settle(self) -> None:
        _settle_each((self._record,), *self._spans(), self.lane)

    def unknown(self, error: mqplug.Error) -> None:
        self._record.unknown(error)


class CompiledRun(CompiledPending):
    """The records of a run."""

    __slots__ = ("_run",)

    def __init__(self, run: Run, lane: Lane) -> None:
        super().__init__(lane)
        self._run = run

    def __len__(self) -> int:
        return len(self._run)

    def settle(self) -> None:
        spans, others = self._spans()
        if others or any(ledger < 0 for _, _, ledger, *_ in spans):
            _settle_each(self._run.sendings(), spans, others, self.lane)
        else:
            self._run.stored(self.lane.log, coordinates(spans, len(self)), details(spans, len(self)))

    def unknown(self, error: mqplug.Error) -> None:
        self._run.unknown(error)


def _columns(run: Run) -> Columns:
    arrays = run.arrow(ARROW_COLUMNS)
    if not arrays:
        return run.values, run.keys, run.headers, run.timestamps
    return arrays["value"], arrays.get("key"), run.headers, arrays.get("timestamp")


def _settle_each(
    records: Sequence[Sending], spans: Sequence[Span], others: Sequence[tuple[int, int]], lane: Lane
) -> None:
    """Settle each record by its own report."""
    for span in spans:
        for row, place, detail in rows(span):
            if place[0] >= 0:
                records[row].stored(lane.log, place, detail)
            else:
                settle_duplicate(records[row])
    for row, result in others:
        settle_failed(records[row], RESULTS.get(result, Result.UnknownError), lane)


T = TypeVar("T")

Span = tuple[int, int, int, int, int, int]
"""First row, count of rows, ledger, entry, index of the first row in its batch (-1 without one), size of the batch."""


class LazyList(Sequence[T]):
    """A list that is built when one of its items is accessed by index. Iteration does not build it."""

    __slots__ = ("_count", "_items", "_made")

    def __init__(self, count: int, items: Callable[[], Iterator[T]]) -> None:
        self._count = count
        self._items = items
        self._made: list[T] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if self._made is None:
            self._made = list(self._items())
        return self._made[index]

    def __iter__(self) -> Iterator[T]:
        return self._items() if self._made is None else iter(self._made)


def coordinates(spans: Sequence[Span], count: int) -> Sequence[Numbers]:
    """Return the coordinates of the messages in the spans, in order."""
    return LazyList(count, lambda: chain.from_iterable(map(_coordinates, spans)))


def details(spans: Sequence[Span], count: int) -> Sequence[Numbers]:
    """Return the details of the messages in the spans, in order."""
    return LazyList(count, lambda: chain.from_iterable(map(_details, spans)))


def rows(span: Span) -> Iterable[tuple[int, Numbers, Numbers]]:
    """Return row, coordinates and detail of each message of a span."""
    return zip(range(span[0], span[0] + span[1]), _coordinates(span), _details(span), strict=True)


def _coordinates(span: Span) -> Iterable[Numbers]:
    _, count, ledger, entry, index, _ = span
    return zip(repeat(ledger), repeat(entry), range(index, index + count), strict=False)


def _details(span: Span) -> Iterable[Numbers]:
    _, count, _, _, index, size = span
    return repeat((size,) if index >= 0 and size > 0 else (), count)


def doubt(spans: Sequence[Span], count: int, *, in_order: bool) -> str | None:
    """Return why the ids of messages that were sent together are inconsistent; None if they are plausible."""
    row = 0
    for first, length, ledger, entry, index, size in spans:
        if first != row or length < 1:
            return f"row {row} is missing or duplicated"
        if ledger >= 0 and (entry < 0 or index < -1 or (index >= 0 and index + length > size)):
            return f"no message can be at {ledger}:{entry}:{index} in a batch of {size}"
        row += length
    if row != count:
        return f"expected {count} rows, got {row}"
    places = [span[2:5] for span in spans if span[2] >= 0]
    if len(set(places)) < len(places):
        return "two messages have the same id"
    return "the ids are not ascending" if in_order and places != sorted(places) else None
