"""The pages that members of a shared group work on, each read and decoded once for all of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import repeat
from typing import Final, TypeVar

from mqplug import Batch, Corrupt, Log
from mqplug.spi import Headers, Numbers
from mqplug.spi.groups import Lease, Upcoming
from mqplug_rocksmq._driver.translation import position_at
from mqplug_rocksmq._format.page import Page
from mqplug_rocksmq._format.slices import SinglePages
from mqplug_rocksmq._store.store import Store

T = TypeVar("T")
_CACHE_BYTES: Final = 4 << 20
_PAGE_OVERHEAD_BYTES: Final = 500  # of memory that a page takes beside its bytes, about


class CachedPage:
    """A page whose columns are decoded once each, however few of its messages are wanted at a time."""

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
    """The pages of one log that were read last. Not thread-safe."""

    def __init__(self, store: Store, number: int, *, with_keys: bool) -> None:
        self._store = store
        self._number = number
        self._with_keys = with_keys
        self._pages: dict[int, CachedPage] = {}  # by their bases, the oldest first
        self._bases: list[int] = []  # ascending
        self._size = 0

    def upcoming(self, position: Numbers, most: int) -> list[Upcoming]:
        """Return the messages at and after a position, as lease tables need them."""
        offset = position[0]
        found: list[Upcoming] = []
        while most > 0 and (page := self._page_at(offset)):
            start = max(offset, page.base)
            offset = min(page.end, start + most)
            most -= offset - start
            keys = page.keys[start - page.base : offset - page.base] if self._with_keys else repeat(None)
            places = [(each,) for each in range(start, offset + 1)]
            found += map(Upcoming, places[:-1], keys, places[1:])
        return found

    def batch(self, log: Log, leases: Sequence[Lease]) -> Batch:
        """Return the messages of these leases."""
        columns = LeasedColumns(self._rows(leases), leases)
        return Batch(log, position_at(log, leases[-1].coordinates[0] + 1), len(leases), columns)

    def _rows(self, leases: Iterable[Lease]) -> list[PageRows]:
        rows: list[PageRows] = []
        page: CachedPage | None = None
        for (offset,), _ in leases:
            if page is None or offset >= page.end:
                page = self._page_at(offset)
                if page is None or offset < page.base:
                    raise Corrupt(f"the message {offset}, which was there, is missing from the store")
                rows.append((page, []))
            rows[-1][1].append(offset - page.base)
        return rows

    def _page_at(self, offset: int) -> CachedPage | None:
        """Return the page with this message, or the next page where there is none."""
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
        return [each.coordinates for each in self._leases]

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
        return [each.attempt for each in self._leases]
