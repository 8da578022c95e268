"""From a start to an offset in each log."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug.spi import AtTime, Earliest, Last, Latest, SymbolicStart
from mqplug_rocksmq._engine.log_state import Extent
from mqplug_rocksmq._store.store import Store


def resolve(store: Store, start: SymbolicStart, numbers: Sequence[int]) -> list[int]:
    """Return the offset at which reading begins in each log."""
    extents = store.watermarks(numbers)
    return [_offset(store, start, number, extent) for number, extent in zip(numbers, extents, strict=True)]


def _offset(store: Store, start: SymbolicStart, number: int, extent: Extent) -> int:
    match start:
        case Earliest():
            return extent.low
        case Latest():
            return extent.high
        case AtTime(milliseconds):
            return store.first_at(number, milliseconds)
        case Last(count):
            return extent.high if not count else store.nth_last(number, count)
