"""Takes messages through the compiled part. The first ones of a process are taken by the plain path, and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import _pulsar

import mqplug_pulsar_native
from mqplug.spi import Headers
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._consume.leased_messages import LeasedRun
from mqplug_pulsar._consume.native_rows import NativeRows
from mqplug_pulsar._consume.received_messages import (
    Received,
    ReceivedMessages,
    take_by_member,
    take_by_reader,
)

if TYPE_CHECKING:
    import pyarrow

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
    # The client puts each message into this one; an old one would keep its whole batch.
    rows, result = mqplug_pulsar_native.take(native, arrived, _pulsar.Message(), most)
    return NativeRows(rows), result


def take_collected(native: Any, arrived: list[Any], most: int) -> tuple[ReceivedMessages, int]:
    """Take messages of a group; see ``TakeNow``."""
    plain, result = take_by_member(native, arrived, most)
    return CollectedMessages(plain.messages) if _agrees(plain) else plain, result


def hand_out_collected(messages: list[Any], attempts: Sequence[int]) -> LeasedRun:
    """Return native messages that a member hands out."""
    agrees = _agreed or _agrees(ReceivedMessages(messages))
    return CollectedLeases(messages, attempts) if agrees else LeasedRun(messages, attempts)


class CollectedMessages(ReceivedMessages):
    """Native messages of a group, which are needed for their acks. The columns with their content are compiled."""

    def id_of(self, row: int) -> Any:
        return self.messages[row].message_id()  # few are needed: a batch that is acked whole needs none

    @cached_property
    def _rows(self) -> NativeRows:
        return NativeRows(mqplug_pulsar_native.collect(self.messages))

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
    """Native messages that a member hands out, with compiled columns."""

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        return super().arrow([name for name in names if name != "attempt"])  # these are not the broker's


def _agrees(plain: ReceivedMessages) -> bool:
    """Return whether the compiled part reads as the plain path does. The first messages show it."""
    global _agreed
    if _agreed is None and len(plain):
        difference = _difference(plain)
        if difference is not None:
            compiled_part.give_up("reading", difference)
        _agreed = difference is None
    return bool(_agreed)


def _difference(plain: ReceivedMessages) -> str | None:
    """Return how the columns of the same messages differ; None if they agree."""
    try:
        rows = NativeRows(mqplug_pulsar_native.collect(plain.messages))
        different = [name for name, column in _COLUMNS.items() if column(plain) != column(rows)]
    except Exception as error:  # noqa: BLE001 - whatever it is, the plain path serves
        return f"its first messages cannot be compared: {type(error).__name__}: {error}"
    return f"the {different[0]} of its first messages are not those of the plain client" if different else None
