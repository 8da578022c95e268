"""Batches of stored messages for consumers. Each column is decoded when it is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from mqplug import Batch, Log
from mqplug.spi import Headers, Numbers
from mqplug_rocksmq._driver.translation import position_at
from mqplug_rocksmq._format.page import Page
from mqplug_rocksmq._format.slices import SinglePages, Slice

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")
_ARROW_PAGE_MESSAGES: Final = 32  # smaller pages become Arrow faster by way of the lists of all


class SliceColumns:
    """The columns of some slices, one after the other."""

    __slots__ = ("_slices",)

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices

    def _joined(self, column: Callable[[Page | SinglePages], list[T]]) -> list[T]:
        if len(self._slices) == 1:
            _, page, start, stop = self._slices[0]
            whole = column(page)
            return whole if stop - start == page.count else whole[start:stop]
        joined: list[T] = []
        for _, page, start, stop in self._slices:
            part = column(page)
            joined += part if stop - start == page.count else part[start:stop]
        return joined

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
        size = sum([part.stop - part.start for part in slices])
        super().__init__(log, position_at(log, slices[-1].end), size, SliceColumns(slices))
        self.slices = slices


def next_batch(log: Log, ahead: deque[Slice], most: int) -> PageBatch:
    """Take the whole pages that have up to *most* messages together, or a part of the first if that has more."""
    first = ahead.popleft()
    if (size := len(first)) > most:
        base, page, start, stop = first
        first = Slice(base, page, start, start + most)
        ahead.appendleft(Slice(base, page, start + most, stop))
    slices = [first]
    while ahead and (size := size + len(ahead[0])) <= most:
        slices.append(ahead.popleft())
    return PageBatch(log, slices)
