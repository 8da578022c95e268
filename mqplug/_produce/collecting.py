"""Collecting: submitted records become rows of the open runs of their partitions.

Every submitted record passes here, so a driver may bring the three classes in compiled form: ``Row``, the base of the
handles, ``Rows`` and ``Collector``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, cast

from mqplug._base.fork import ForkGuard
from mqplug._model.ids import MessageId
from mqplug._produce.handle import SendHandle

if TYPE_CHECKING:
    from mqplug._model.errors import Error
    from mqplug._produce.handle import IdParts
    from mqplug._produce.pump import AwaitedSend, Wait

KeylessPartitions = Iterator[int] | int
KeyedPartitions = Callable[[bytes], int] | int


class RunOfRows(Protocol):
    """A run, as the handles of its rows use it."""

    topic: str
    was_seen: bool
    rows_seen: set[int]

    @property
    def wait(self) -> Callable[..., None]: ...
    def id_of(self, row: int) -> MessageId | None: ...
    def outcome_of(self, row: int) -> IdParts | Error | None: ...
    def awaited_of(self, row: int) -> AwaitedSend | None: ...


class RowHandle(SendHandle):
    """The handle of a row. Its classes are derived from a ``Row``, too."""

    __slots__ = ()

    _run: RunOfRows
    _row: int

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


NewHandle = Callable[[RunOfRows, int], RowHandle]
"""The class of the handles, which makes one of a run and a row."""


class Row:
    """A row of a run."""

    __slots__ = ("_row", "_run")

    def __init__(self, run: RunOfRows, row: int) -> None:
        self._run = run
        self._row = row


class CollectedHandle(Row, RowHandle):
    """The handle of a row, without a compiled part."""

    __slots__ = ()


def handle_class(row: type[Any]) -> NewHandle:
    """Return the class of handles that are derived from this ``Row``."""
    if row is Row:
        return CollectedHandle
    return cast("NewHandle", type("RowHandle", (row, RowHandle), {"__slots__": ()}))


class Rows:
    """The rows of an open run: a value each, and maybe a key. Rows are added with the queue's lock held.

    A row is added by one append, so that an interrupt cannot leave half of it.
    """

    __slots__ = ("bytes_left", "keys", "most", "run", "values")

    def __init__(self, run: RunOfRows, most: int, most_bytes: int) -> None:
        self.run = run
        self.most = most
        self.bytes_left = most_bytes
        self.values: list[bytes] = []
        self.keys: list[bytes | None] | None = None
        """None while no row has a key."""

    def __len__(self) -> int:
        return len(self.values)

    def has_room(self, size: int) -> bool:
        """Return whether there is room for a row of this size."""
        return len(self.values) < self.most and size <= self.bytes_left

    def add(self, value: bytes, key: bytes | None, size: int) -> int:
        """Add a row for which there is room, and return its number."""
        number = len(self.values)
        if key is not None or self.keys is not None:
            keys = self.keys = self.keys or []
            del keys[number:]  # left by an interrupt
            keys.extend([None] * (number - len(keys)))
            keys.append(key)
        self.bytes_left -= size
        self.values.append(value)
        return number

    def seal(self) -> None:
        """Have no room for more."""
        self.most = 0

    def columns(self) -> tuple[list[bytes], list[bytes | None] | None]:
        """Return the values, and the keys if a row has one."""
        if self.keys is None:
            return self.values, None
        missing = len(self.values) - len(self.keys)  # an interrupt may have left one too many, or none at all
        return self.values, (self.keys + [None] * missing)[: len(self.values)]


class Collector:
    """Adds the records that a producer submits to the open runs of its topic, as long as these have room."""

    def __init__(self, handle: NewHandle, most_bytes: int, lock: Lock) -> None:
        """Collect values and keys of at most *most_bytes*. A compiled collector does not need the lock."""
        self._handle = handle
        self._most_bytes = most_bytes
        self._lock = lock
        self._forks = ForkGuard.forks
        self.follow({}, 0, 0)

    def follow(self, rows: Mapping[int, Rows], keyless: KeylessPartitions, keyed: KeyedPartitions) -> None:
        """Collect into these rows by partition, chosen by these for records without a key and with one."""
        self._rows = rows
        self._keyless = repeat(keyless) if isinstance(keyless, int) else keyless
        self._keyed = (lambda _: keyed) if isinstance(keyed, int) else keyed

    def collect(self, value: object, key: object) -> RowHandle | int | None:
        """Collect a record and return its handle.

        If its partition has no rows with room, return the partition. If this is not a record to collect, return None.
        """
        if type(value) is not bytes or ForkGuard.forks != self._forks:
            return None
        if key is None:
            size = len(value)
            partition = next(self._keyless)
        elif type(key) is bytes:
            size = len(value) + len(key)
            partition = self._keyed(key)
        else:
            return None
        if size > self._most_bytes:
            return None
        rows = self._rows.get(partition)
        if rows is None:
            return partition
        with self._lock:
            values, number = rows.values, len(rows.values)
            left = rows.bytes_left - size
            if number >= rows.most or left < 0:
                return partition
            if key is None and rows.keys is None:
                rows.bytes_left = left
                values.append(value)
            else:
                rows.add(value, key, size)
            return self._handle(rows.run, number)
