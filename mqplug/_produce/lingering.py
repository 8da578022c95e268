"""Lingering: single records that no sender waits for are collected in runs, one for each partition.

A run is open until it is full or ``linger`` is over. Then the driver gets its records together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mqplug._base.bell import Bell
from mqplug._model.ids import MessageId
from mqplug._produce.columns import RecordColumns
from mqplug._produce.handle import SendHandle, SingleSend
from mqplug._produce.send_run import SendRun

if TYPE_CHECKING:
    from mqplug._model.errors import Error
    from mqplug._model.message import Headers
    from mqplug._produce.handle import IdParts
    from mqplug._produce.pump import AwaitedSend, Wait

    WholeRow = tuple[bytes | None, bytes | None, Headers, int | None]
    """Value, key, headers and timestamp of a record."""
    Row = bytes | WholeRow
    """A record, or only its value if it has nothing else."""

NO_RECORDS = RecordColumns((), ())


class CollectedRun(SendRun):
    """Records of one partition. A run is open until it is sealed; then it has its columns and takes no more records.

    A record is added by one append, so that an interrupt cannot leave half of it.
    """

    __slots__ = ("bytes_left", "reserved", "rows", "rows_max", "rows_seen", "singles", "ticked", "values_only")

    def __init__(self, topic: str, partition: int, wait: Wait, rows_max: int, bytes_max: int) -> None:
        super().__init__(topic, partition, NO_RECORDS, wait)
        self.rows: list[Row] = []
        self.rows_max = rows_max
        self.bytes_left = bytes_max
        self.reserved = rows_max, bytes_max
        """The messages and bytes that the queue keeps free for it while it is open."""
        self.values_only = True
        """Whether each row is only a value, which holds until a record has more."""
        self.singles: dict[int, SingleSend] = {}
        """The rows that are also single records, which get the outcome as well."""
        self.rows_seen: set[int] = set()
        """The rows whose failure was raised."""
        self.ticked = False
        """Whether it was there at the last tick of the linger thread."""

    @property
    def used_bytes(self) -> int:
        """The bytes of the added records, while the run is open."""
        return self.reserved[1] - self.bytes_left

    def has_room(self, size: int) -> bool:
        """Return whether there is room for a record of this size."""
        return len(self.rows) < self.rows_max and size <= self.bytes_left

    def add(self, row: Row, size: int, single: SingleSend | None = None) -> RowHandle:
        """Add a record for which there is room. ``single`` is the record itself, if it has its own handle."""
        if self.values_only and type(row) is tuple:
            self.rows = [_whole(each) for each in self.rows]
            self.values_only = False
        number = len(self.rows)
        if single is not None:
            self.singles[number] = single
        if not self.values_only:
            row = _whole(row)
        self.bytes_left -= size
        self.rows.append(row)
        return RowHandle(self, number)

    def seal(self) -> None:
        """Take no more records, and build the columns."""
        if self.bytes_left >= 0:
            self.size = self.used_bytes
            self.rows_max, self.bytes_left = 0, -1
        if self.rows:
            self._columns = _columns(self.rows, self.size, self.values_only)
            self._count = len(self.rows)
            self.rows = []

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
        return self.singles.get(row) or RowHandle(self, row)

    def _records(self) -> list[SingleSend]:
        records = super()._records()
        for row, single in self.singles.items():
            records[row] = single
        return records

    def _pass_on(self) -> None:
        super()._pass_on()
        if self._alone is None and self.singles:
            self._settle_each(self.singles.items())


class RowHandle(SendHandle):
    """The handle of a record in a run."""

    __slots__ = ("_row", "_run")

    def __init__(self, run: CollectedRun, row: int) -> None:
        self._run = run
        self._row = row

    def result(self, timeout: float | None = 30) -> MessageId:
        """As ``SendHandle.result``, with a fast path for the common case."""
        return (self._run.id_of(self._row) if timeout == 30 else None) or super().result(timeout)

    @property
    def topic(self) -> str:  # type: ignore[override]  # read only here
        """The topic that it was sent to."""
        return self._run.topic

    @property
    def outcome(self) -> IdParts | Error | None:  # type: ignore[override]
        """Its outcome; None while it is on its way."""
        return self._run.outcome_of(self._row)

    @property
    def wait(self) -> Wait:  # type: ignore[override]
        """The function that waits for it."""
        return self._run.wait

    @property
    def awaited(self) -> AwaitedSend | None:
        """The run, or the record itself if the run's records are settled one by one; None once it is settled."""
        return self._run.awaited_of(self._row)

    @property
    def was_seen(self) -> bool:  # type: ignore[override]
        """As ``SendHandle.was_seen``."""
        return self._run.was_seen or self._row in self._run.rows_seen

    def note_seen(self) -> None:
        """As ``SendHandle.note_seen``."""
        self._run.rows_seen.add(self._row)


def row_of(value: bytes | None, key: bytes | None, headers: Headers, timestamp: int | None) -> Row:
    """Return a record as a row."""
    if key is None and timestamp is None and value is not None and not headers:
        return value
    return value, key, headers, timestamp


def _whole(row: Row) -> WholeRow:
    return (row, None, (), None) if isinstance(row, bytes) else row


def _columns(rows: list[Any], size: int, values_only: bool) -> RecordColumns:
    """Return the columns of these rows, which have ``size`` bytes."""
    if values_only:
        return RecordColumns(rows, size=size)
    values, keys, headers, timestamps = zip(*rows, strict=True)
    return RecordColumns(
        values,
        None,
        None if keys.count(None) == len(keys) else keys,
        headers if any(headers) else None,
        None if timestamps.count(None) == len(timestamps) else timestamps,
        size=size,
    )


Runs = dict[int, CollectedRun]
"""The open runs of a topic, by partition."""


class OpenRuns:
    """Open runs, the oldest first. The queue's lock is held in all calls that change them."""

    def __init__(self) -> None:
        self.messages = self.bytes = 0
        """The messages and bytes of the queue that the runs reserved."""
        self._by_topic: dict[str, Runs] = {}
        self._all: dict[CollectedRun, None] = {}

    def of_topic(self, topic: str) -> Runs:
        """Return the open runs of a topic. They stay in this dictionary."""
        return self._by_topic.setdefault(topic, {})

    def that_may_overlap(self, topic: str, partition: int) -> list[CollectedRun]:
        """Return the open runs whose records may be for the same partition as those of a new run.

        With partition -1 the driver chooses, which may be any partition.
        """
        return [run for run in self.of_topic(topic).values() if (run.partition < 0) != (partition < 0)]

    def add(self, run: CollectedRun) -> None:
        """Add a newly opened run."""
        self._all[run] = None
        self.of_topic(run.topic)[run.partition] = run
        self.messages += run.reserved[0]
        self.bytes += run.reserved[1]

    def remove(self, run: CollectedRun) -> None:
        """Remove a run, if it is here."""
        if run in self._all:
            self.of_topic(run.topic).pop(run.partition, None)
            del self._all[run]
            self.messages -= run.reserved[0]
            self.bytes -= run.reserved[1]
        if not self._all:  # repairs the counts after an interrupt
            self.messages = self.bytes = 0

    def used(self) -> tuple[int, int]:
        """Return the collected messages and bytes."""
        runs = self._all
        return sum(len(run.rows) for run in runs), sum(run.used_bytes for run in runs)

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[CollectedRun]:
        return iter(list(self._all))

    def __contains__(self, run: object) -> bool:
        return run in self._all


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
        self._due.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

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
            if self._closing.wait(self._linger_s / 2):
                return
            self._due.clear()  # before the tick: records collected after it need another
            if self._tick() or self._closed:
                self._due.set()


def _nothing_left() -> bool:
    return False
