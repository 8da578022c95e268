"""Takes messages through the compiled part, as columns. Bytes are copied out of them on demand.

The plain path takes the first messages of a process, to compare its columns with those of the compiled part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

import _pulsar

import mqplug_pulsar_native
from mqplug.spi import Headers, Numbers
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._consume.received_messages import (
    EntryRun,
    LeasedRun,
    Received,
    ReceivedMessages,
    take_by_member,
    take_by_reader,
)
from mqplug_pulsar._format.escapes import headers_from_properties, key_from_text, with_schema_version
from mqplug_pulsar_native import ODD_HEADERS, ODD_KEY, Rows

if TYPE_CHECKING:
    import pyarrow


class CompiledRows:
    """Messages of one partition, in order, which were never Python objects."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def only(self, numbers: Sequence[int]) -> Self:
        """Return these rows."""
        return type(self)(self._rows.only(numbers))

    @cached_property
    def runs(self) -> list[EntryRun]:
        """These messages by entry."""
        return [EntryRun(*run) for run in self._rows.runs()]

    @property
    def next_position(self) -> Numbers:
        """The position after the last message."""
        return self.runs[-1].next_position

    def coordinates(self) -> Sequence[Numbers]:
        return self._rows.coordinates()

    def details(self) -> Sequence[Numbers]:
        return self._rows.details()

    def keys(self) -> Sequence[bytes | None]:
        keys = self._rows.keys()
        if self._rows.any & ODD_KEY:
            return [key_from_text(key) if isinstance(key, str) else key for key in keys]
        return cast("list[bytes | None]", keys)

    def values(self) -> Sequence[bytes | None]:
        return self._rows.values()

    def headers(self) -> Sequence[Headers]:
        found = self._rows.headers()
        if not self._rows.any & ODD_HEADERS:
            return cast("list[Headers]", found)
        versions = self._numbers("schema_version", "q")
        return [
            with_schema_version(headers_from_properties(each), version) if isinstance(each, dict) else each
            for each, version in zip(found, versions, strict=True)
        ]

    def timestamps(self) -> Sequence[int]:
        return self._numbers("timestamp", "Q")

    def log_times(self) -> Sequence[int]:
        return self._numbers("published", "Q")

    def attempts(self) -> Sequence[int]:
        return self._numbers("attempt", "i")

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        from mqplug_pulsar._consume import compiled_arrow

        return compiled_arrow.arrays(self._rows, names)

    def _numbers(self, column: str, kind: str) -> list[int]:
        numbers: list[int] = memoryview(self._rows.buffer(column)).cast("B").cast(kind).tolist()  # type: ignore[call-overload]
        return numbers


_COLUMNS: dict[str, Callable[[Received], Any]] = {
    "ids": lambda run: run.coordinates(),
    "batches": lambda run: run.details(),
    "entries": lambda run: [place for each in run.runs for place in each.coordinates()],
    "keys": lambda run: run.keys(),
    "values": lambda run: run.values(),
    "headers": lambda run: run.headers(),
    "timestamps": lambda run: run.timestamps(),
    "log times": lambda run: run.log_times(),
    "attempts": lambda run: run.attempts(),
}
_agreed: bool | None = None  # whether the first messages were equal


def take_rows(native: Any, arrived: list[Any], most: int) -> tuple[Received, int]:
    """Take messages without a group; see ``TakeNow``."""
    if not _agreed:
        plain, result = take_by_reader(native, arrived, most)
        _agrees(plain)
        return plain, result
    # The client puts each message into this one. A reused one would keep its last batch in memory.
    rows, result = mqplug_pulsar_native.take(native, arrived, _pulsar.Message(), most)
    return CompiledRows(rows), result


def take_collected(native: Any, arrived: list[Any], most: int) -> tuple[ReceivedMessages, int]:
    """Take messages of a group; see ``TakeNow``."""
    plain, result = take_by_member(native, arrived, most)
    return CollectedMessages(plain.messages) if _agrees(plain) else plain, result


def hand_out_collected(messages: list[Any], attempts: Sequence[int]) -> LeasedRun:
    """Return the client's messages that a member hands out, as columns."""
    agrees = _agreed or _agrees(ReceivedMessages(messages))
    return CollectedLeases(messages, attempts) if agrees else LeasedRun(messages, attempts)


class CollectedMessages(ReceivedMessages):
    """The client's messages of a group, kept for their acks. The compiled part fills their columns."""

    def id_of(self, row: int) -> Any:
        return self.messages[row].message_id()  # few are needed: a fully acked batch needs none

    @cached_property
    def _rows(self) -> CompiledRows:
        return CompiledRows(mqplug_pulsar_native.collect(self.messages))

    @cached_property
    def _coordinates(self) -> list[tuple[int, ...]]:
        return list(self._rows.coordinates())

    def details(self) -> Sequence[tuple[int, ...]]:
        return self._rows.details()

    def keys(self) -> Sequence[bytes | None]:
        return self._rows.keys()

    def values(self) -> Sequence[bytes | None]:
        return self._rows.values()

    def headers(self) -> Sequence[Headers]:
        return self._rows.headers()

    def timestamps(self) -> Sequence[int]:
        return self._rows.timestamps()

    def log_times(self) -> Sequence[int]:
        return self._rows.log_times()

    def attempts(self) -> Sequence[int]:
        return self._rows.attempts()

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        return self._rows.arrow(names)


class CollectedLeases(LeasedRun, CollectedMessages):
    """The client's messages that a member hands out, with compiled columns."""

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        return super().arrow([name for name in names if name != "attempt"])  # the leases know the attempts


def _agrees(plain: ReceivedMessages) -> bool:
    """Return whether the compiled part reads the same as the plain path, as the first messages show."""
    global _agreed
    if _agreed is None and len(plain):
        difference = _difference(plain)
        if difference is not None:
            compiled_part.refuse("reads", difference)
        _agreed = difference is None
    return bool(_agreed)


def _difference(plain: ReceivedMessages) -> str | None:
    """Return how the columns of the same messages differ; None if they agree."""
    try:
        rows = CompiledRows(mqplug_pulsar_native.collect(plain.messages))
        different = [name for name, column in _COLUMNS.items() if column(plain) != column(rows)]
    except Exception as error:  # noqa: BLE001 - after any error, the plain path reads
        return f"its first messages cannot be compared: {type(error).__name__}: {error}"
    return f"the {different[0]} of its first messages differ from the plain client's" if different else None
