"""Batches of stored messages for consumers. Each column is decoded when it is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from mqplug import Batch, Log
from mqplug.spi import Headers, Numbers
from mqplug_rocksmq._driver.translation import position_at
from mqplug_rocksmq._format.page import Page
from mqplug_rocksmq._format.slices import SinglePages, Slice

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")
_BATCH_MESSAGES: Final = 1000
_ARROW_PAGE_MESSAGES: Final = 32  # smaller pages become Arrow faster by way of the lists of all


class SliceColumns:
    """The columns of some slices, one after the other."""

    __slots__ = ("_slices",)

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices

    def _joined(self, column: Callable[[Page | SinglePages], list[T]]) -> list[T]:
        if len(self._slices) == 1:
            only = self._slices[0]
            whole = column(only.page)
            return whole if len(only) == only.page.count else whole[only.start : only.stop]
        return [item for part in self._slices for item in column(part.page)[part.start : part.stop]]

    def coordinates(self) -> Sequence[Numbers]:
        return [(offset,) for part in self._slices for offset in range(part.base + part.start, part.end)]

    def details(self) -> None:
        return None

    def keys(self) -> Sequence[bytes | None]:
        return self._joined(lambda page: page.keys())

    def values(self) -> Sequence[bytes | None]:
        return self._joined(lambda page: page.values())

    def headers(self) -> Sequence[Headers]:
        return self._joined(lambda page: page.headers() or [()] * page.count)

    def timestamps(self) -> Sequence[int]:
        return self._joined(lambda page: page.times())

    def log_times(self) -> Sequence[int]:
        return self.timestamps()

    def attempts(self) -> None:
        return None

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return columns that the pages hold as Arrow, without a copy for a single page; none of small pages."""
        if sum(map(len, self._slices)) < _ARROW_PAGE_MESSAGES * len(self._slices):
            return {}
        from mqplug_rocksmq._format.from_pages_to_arrow import joined_columns

        return joined_columns(self._slices, names)


class PageBatch(Batch):
    """A batch that knows the pages of its messages, so that they can be passed on as they are."""

    def __init__(self, log: Log, slices: Sequence[Slice]) -> None:
        super().__init__(log, position_at(log, slices[-1].end), sum(map(len, slices)), SliceColumns(slices))
        self.slices = slices


def batch_of(log: Log, slices: Sequence[Slice]) -> PageBatch:
    """Return slices of one log as a batch."""
    return PageBatch(log, slices)


def batches_of(log: Log, slices: Iterable[Slice]) -> deque[Batch]:
    """Return slices of one log as several batches: one for each page, but small pages together."""
    batches: deque[Batch] = deque()
    together: list[Slice] = []
    count = 0
    for part in slices:
        if together and count + len(part) > _BATCH_MESSAGES:
            batches.append(PageBatch(log, together))
            together, count = [], 0
        together.append(part)
        count += len(part)
    if together:
        batches.append(PageBatch(log, together))
    return batches
