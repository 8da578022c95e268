"""Batches of stored messages for consumers. Each column is decoded on demand.

Members of a shared group take single messages of the same pages: each page is read and decoded once for all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Final, TypeVar

from mqplug import Batch, Corrupt, Log
from mqplug.spi import Headers, Numbers
from mqplug.spi.groups import Lease
from mqplug_rocksmq._driver.translation import position_at
from mqplug_rocksmq._format.page import Page
from mqplug_rocksmq._format.slices import SinglePages, Slice
from mqplug_rocksmq._store.store import Store

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")
_ARROW_PAGE_MESSAGES: Final = 32  # smaller pages are converted to Arrow faster through lists
_CACHE_BYTES: Final = 4 << 20
_PAGE_OVERHEAD_BYTES: Final = 500  # approximate memory that a page takes besides its bytes


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
        """Return the pages' columns as Arrow, without a copy for a single page. Small pages return an empty dict."""
        slices = self._slices
        if sum([part.stop - part.start for part in slices]) < _ARROW_PAGE_MESSAGES * len(slices):
            return {}
        from mqplug_rocksmq._format.from_pages_to_arrow import joined_columns

        return joined_columns(slices, names)


class PageBatch(Batch):
    """A batch that knows the pages of its messages, so that they can be passed on as they are."""

    def __init__(self, log: Log, slices: Sequence[Slice]) -> None:
        size = sum([part.stop - part.start for part in slices])
        super().__init__(log, position_at(log, slices[-1].end), size, SliceColumns(slices))
        self.slices = slices


def next_batch(log: Log, ahead: deque[Slice], most: int) -> PageBatch:
    """Take whole pages of up to *most* messages together, or a part of the first page if it has more."""
    first = ahead.popleft()
    if (size := len(first)) > most:
        base, page, start, stop = first
        first = Slice(base, page, start, start + most)
        ahead.appendleft(Slice(base, page, start + most, stop))
    slices = [first]
    while ahead and (size := size + len(ahead[0])) <= most:
        slices.append(ahead.popleft())
    return PageBatch(log, slices)


class CachedPage:
    """A page whose columns are each decoded once, however few of its messages are wanted at a time."""

    def __init__(self, base: int, page: Page | SinglePages) -> None:
        self.base = base
        self.end = base + page.count
        self.size = page.size + _PAGE_OVERHEAD_BYTES
        self._page = page

    @cached_property
    def keys(self) -> list[bytes | None]:
        """The keys."""
        return self._page.keys()

    @cached_property
    def values(self) -> list[bytes | None]:
        """The values."""
        return self._page.values()

    @cached_property
    def headers(self) -> Sequence[Headers]:
        """The headers of each message."""
        return self._page.headers() or [()] * self._page.count

    @cached_property
    def times(self) -> list[int]:
        """The timestamps."""
        return self._page.times()


class PageCache:
    """The most recently read pages of one log. Not thread-safe."""

    def __init__(self, store: Store, number: int, *, with_keys: bool) -> None:
        self._store = store
        self._number = number
        self._with_keys = with_keys
        self._pages: dict[int, CachedPage] = {}  # by their bases, the oldest first
        self._bases: list[int] = []  # ascending
        self._size = 0

    def upcoming(self, position: Numbers, most: int) -> list[tuple[Numbers, bytes | None, Numbers]]:
        """Return the messages at and after a position, as lease tables need them."""
        offset = position[0]
        found: list[tuple[Numbers, bytes | None, Numbers]] = []
        while most > 0 and (page := self._page_at(offset)):
            start = max(offset, page.base)
            offset = min(page.end, start + most)
            most -= offset - start
            keys = page.keys[start - page.base : offset - page.base] if self._with_keys else repeat(None)
            places = [(each,) for each in range(start, offset + 1)]
            found += zip(places, keys, places[1:], strict=False)
        return found

    def batch(self, log: Log, leases: Sequence[Lease]) -> Batch:
        """Return the messages of these leases."""
        columns = LeasedColumns(self._rows(leases), leases)
        return Batch(log, position_at(log, leases[-1].coordinates[0] + 1), len(leases), columns)

    def _rows(self, leases: Iterable[Lease]) -> list[PageRows]:
        rows: list[PageRows] = []
        offsets, start = [offset for (offset,), _ in leases], 0
        while start < len(offsets):
            page = self._page_at(offsets[start])
            if page is None or offsets[start] < page.base:
                raise Corrupt(f"the message {offsets[start]} was in the store, but is now missing")
            base, stop = page.base, bisect_left(offsets, page.end, start)
            rows.append((page, [offset - base for offset in offsets[start:stop]]))
            start = stop
        return rows

    def _page_at(self, offset: int) -> CachedPage | None:
        """Return the page with this message, or else the next page, if any."""
        index = bisect_right(self._bases, offset) - 1
        if index >= 0 and offset < (known := self._pages[self._bases[index]]).end:
            return known
        found = [CachedPage(part.base, part.page) for part in self._store.read(self._number, offset)]
        self._keep(found)
        return found[0] if found else None

    def _keep(self, found: Sequence[CachedPage]) -> None:
        self._size += sum(page.size for page in found)
        while self._pages and self._size > _CACHE_BYTES:
            oldest = self._pages.pop(next(iter(self._pages)))
            del self._bases[bisect_left(self._bases, oldest.base)]
            self._size -= oldest.size
        for page in found:
            if page.base in self._pages:
                self._size -= page.size
            else:
                self._pages[page.base] = page
                insort(self._bases, page.base)


PageRows = tuple[CachedPage, list[int]]
"""Some messages of a page, by their rows."""


class LeasedColumns:
    """The columns of leased messages, which may be anywhere in some pages."""

    __slots__ = ("_leases", "_rows")

    def __init__(self, rows: Sequence[PageRows], leases: Sequence[Lease]) -> None:
        self._rows = rows
        self._leases = leases

    def _picked(self, column: Callable[[CachedPage], Sequence[T]]) -> list[T]:
        picked: list[T] = []
        for page, rows in self._rows:
            picked += map(column(page).__getitem__, rows)
        return picked

    def coordinates(self) -> Sequence[Numbers]:
        return [coordinates for coordinates, _ in self._leases]

    def details(self) -> None:
        return None

    def keys(self) -> Sequence[bytes | None]:
        return self._picked(lambda page: page.keys)

    def values(self) -> Sequence[bytes | None]:
        return self._picked(lambda page: page.values)

    def headers(self) -> Sequence[Headers]:
        return self._picked(lambda page: page.headers)

    def timestamps(self) -> Sequence[int]:
        return self._picked(lambda page: page.times)

    def log_times(self) -> Sequence[int]:
        return self.timestamps()

    def attempts(self) -> Sequence[int]:
        return [attempt for _, attempt in self._leases]
