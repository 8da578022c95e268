"""Lingering: single records that no sender waits for are collected in runs, one for each partition.

A run is open until it is full or ``linger`` is over. Then the driver gets its records together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, TypeVar

from mqplug._base.bell import Bell
from mqplug._model.ids import MessageId
from mqplug._produce.collecting import CollectedHandle, Rows
from mqplug._produce.columns import RecordColumns
from mqplug._produce.send_run import SendRun

if TYPE_CHECKING:
    from mqplug._model.errors import Error
    from mqplug._model.message import Headers
    from mqplug._produce.handle import IdParts, SendHandle, SingleSend
    from mqplug._produce.pump import AwaitedSend, Wait

    WholeRow = tuple[bytes | None, bytes | None, Headers, int | None]
    """Value, key, headers and timestamp of a record."""

T = TypeVar("T")

NO_RECORDS = RecordColumns((), ())


class CollectedRun(SendRun):
    """Records of one partition. A run is open until it is sealed; then it has its columns and takes no more records."""

    __slots__ = ("_bytes_left", "_rows", "_whole", "reserved", "rows_seen", "singles", "ticked")

    def __init__(
        self, topic: str, partition: int, wait: Wait, most: int, most_bytes: int, rows_class: type[Rows]
    ) -> None:
        super().__init__(topic, partition, NO_RECORDS, wait)
        self._rows: Rows | None = rows_class(self, most, most_bytes)
        self._whole: list[WholeRow] = []  # all rows, once one has more than a value and a key
        self._bytes_left = 0  # of the whole rows
        self.reserved = most, most_bytes
        """The messages and bytes that the queue keeps free for it while it is open."""
        self.singles: dict[int, SingleSend] = {}
        """The rows that are also single records, which get the outcome as well."""
        self.rows_seen: set[int] = set()
        """The rows whose failure was raised."""
        self.ticked = False
        """Whether it was there at the last tick of the linger thread."""

    @property
    def rows(self) -> Rows | None:
        """The rows, while it is open and no record has more than a value and a key."""
        return self._rows

    def used(self) -> tuple[int, int]:
        """Return the collected messages and bytes, while it is open."""
        if self._rows is not None:
            return len(self._rows), self.reserved[1] - self._rows.bytes_left
        return len(self._whole), self.reserved[1] - self._bytes_left

    def has_room(self, size: int) -> bool:
        """Return whether there is room for a record of this size."""
        if self._rows is not None:
            return self._rows.has_room(size)
        return len(self._whole) < self.reserved[0] and size <= self._bytes_left

    def add(self, row: WholeRow, size: int, single: SingleSend | None = None) -> int:
        """Add a record for which there is room, and return its row. ``single`` is the record, if it has its own handle.

        The row is added by one append, so that an interrupt cannot leave half of it.
        """
        number = self._add_row(row, size)
        if single is not None:
            self.singles[number] = single
        return number

    def _add_row(self, row: WholeRow, size: int) -> int:
        value, key, headers, timestamp = row
        rows = self._rows
        if rows is not None:
            if value is not None and not headers and timestamp is None:
                return rows.add(value, key, size)
            self._widen(rows)
        self._bytes_left -= size
        self._whole.append(row)
        return len(self._whole) - 1

    def _widen(self, rows: Rows) -> None:
        """Continue with whole rows."""
        rows.seal()  # first: a compiled collector adds rows without the lock
        values, keys = rows.columns()
        self._bytes_left = rows.bytes_left
        self._whole = [(value, key, (), None) for value, key in zip(values, keys or repeat(None), strict=False)]
        self._rows = None

    def seal(self) -> None:
        """Take no more records, and build the columns."""
        if self._rows is not None:
            self._rows.seal()
        if not self._count:
            count, self.size = self.used()
            self._columns = self._built()
            self._count = count
        self._rows, self._whole = None, []

    def _built(self) -> RecordColumns:
        if self._rows is not None:
            values, keys = self._rows.columns()
            return RecordColumns(values, None, keys, size=self.size)
        if not self._whole:
            return NO_RECORDS
        whole = self._whole
        return RecordColumns(
            [value for value, _, _, _ in whole],
            None,
            _if_any([key for _, key, _, _ in whole]),
            [headers for _, _, headers, _ in whole] if any(headers for _, _, headers, _ in whole) else None,
            _if_any([timestamp for _, _, _, timestamp in whole]),
            size=self.size,
        )

    def release(self) -> None:
        """Release the settled records, which a single handle would otherwise keep."""
        if self.is_stored:
            self._columns = NO_RECORDS
            self.singles = {}

    def outcome_of(self, row: int) -> IdParts | Error | None:
        """Return the outcome of a record; None while it is on its way."""
        if self._alone is not None:
            return self._alone[row].outcome
        outcome = self._outcome
        if type(outcome) is not tuple:
            return outcome  # type: ignore[return-value]
        log, coordinates, details = outcome
        return log, coordinates[row], () if details is None else details[row]

    def id_of(self, row: int) -> MessageId | None:
        """Return the id of a record if all were stored at once; otherwise None, and ``outcome_of`` has the outcome."""
        outcome = self._outcome
        if type(outcome) is not tuple or self._alone is not None:
            return None
        log, coordinates, details = outcome
        return MessageId(log, coordinates[row], () if details is None else details[row])

    def awaited_of(self, row: int) -> AwaitedSend | None:
        """Return the object to wait for until this record is settled; None once it is."""
        if self._alone is not None:
            return self._alone[row].awaited
        return self if self._outcome is None else None

    def handle(self, row: int) -> SendHandle:
        """Return the handle of a record."""
        return self.singles.get(row) or CollectedHandle(self, row)

    def _records(self) -> list[SingleSend]:
        records = super()._records()
        for row, single in self.singles.items():
            records[row] = single
        return records

    def _pass_on(self) -> None:
        super()._pass_on()
        if self._alone is None and self.singles:
            self._settle_each(self.singles.items())


def _if_any(column: list[T | None]) -> list[T | None] | None:
    """Return a column unless it has only None."""
    return None if column.count(None) == len(column) else column


Runs = dict[int, CollectedRun]
"""The open runs of a topic, by partition."""


class OpenRuns:
    """Open runs, the oldest first. The queue's lock is held in all calls that change them."""

    def __init__(self) -> None:
        self.messages = self.bytes = 0
        """The messages and bytes of the queue that the runs reserved."""
        self._by_topic: dict[str, Runs] = {}
        self._rows: dict[str, dict[int, Rows]] = {}
        self.all: dict[CollectedRun, None] = {}
        """All of them, as keys."""

    def of_topic(self, topic: str) -> Runs:
        """Return the open runs of a topic. They stay in this dictionary."""
        return self._by_topic.setdefault(topic, {})

    def rows_of(self, topic: str) -> dict[int, Rows]:
        """Return the rows of the open runs of a topic, by partition. They stay in this dictionary."""
        return self._rows.setdefault(topic, {})

    def that_may_overlap(self, topic: str, partition: int) -> list[CollectedRun]:
        """Return the open runs whose records may be for the same partition as those of a new run.

        With partition -1 the driver chooses, which may be any partition.
        """
        return [run for run in self.of_topic(topic).values() if (run.partition < 0) != (partition < 0)]

    def add(self, run: CollectedRun) -> None:
        """Add a newly opened run."""
        self.all[run] = None
        self.of_topic(run.topic)[run.partition] = run
        if run.rows is not None:
            self.rows_of(run.topic)[run.partition] = run.rows
        self.messages += run.reserved[0]
        self.bytes += run.reserved[1]

    def remove(self, run: CollectedRun) -> None:
        """Remove a run, if it is here."""
        if run in self.all:
            self.rows_of(run.topic).pop(run.partition, None)
            self.of_topic(run.topic).pop(run.partition, None)
            del self.all[run]
            self.messages -= run.reserved[0]
            self.bytes -= run.reserved[1]
        if not self.all:  # repairs the counts after an interrupt
            self.messages = self.bytes = 0

    def used(self) -> tuple[int, int]:
        """Return the collected messages and bytes."""
        used = [run.used() for run in self.all]
        return sum(messages for messages, _ in used), sum(size for _, size in used)

    def __bool__(self) -> bool:
        return bool(self.all)

    def __iter__(self) -> Iterator[CollectedRun]:
        return iter(list(self.all))

    def __contains__(self, run: object) -> bool:
        return run in self.all


class LingerThread:
    """A thread that hands over collected runs: it calls ``tick`` twice per ``linger_s``, until that returns False."""

    def __init__(self, tick: Callable[[], bool], linger_s: float, name: str) -> None:
        self._tick = tick
        self._linger_s = linger_s
        self._name = name
        self._due = threading.Event()
        self._closed = False
        self._closing = Bell()  # an event's wait takes several times as long, and there are many waits
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to tick, if it does not already. One thread at a time may call."""
        if self._due.is_set():  # cheaper than setting it
            return
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread  # only now: Ctrl-C may have ended its start
        self._due.set()

    def close(self, timeout: float) -> None:
        """End the thread."""
        self._closed = True
        self._closing.ring()
        self._due.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._tick = _nothing_left  # otherwise a cycle with the queue keeps its driver and the connection alive

    def _run(self) -> None:
        while True:
            self._due.wait()
            if self._closing.wait(self._linger_s / 2) or self._closed:
                return
            self._due.clear()  # before the tick: records collected after it need another
            if self._tick() or self._closed:
                self._due.set()


def _nothing_left() -> bool:
    return False
