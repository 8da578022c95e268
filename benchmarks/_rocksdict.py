"""A bare rocksdict program that stores the same pages as mqplug-rocksmq, with the same RocksDB options.

It has no topics, groups, ids, retention, locks or wake-ups. It takes the page format from the plugin's private modules,
so that both sides write the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory

from rocksdict import AccessType, Rdict, WriteBatch, WriteOptions

from benchmarks._contests import Work
from benchmarks._load import Load
from mqplug_rocksmq._engine.tuning import Tuning
from mqplug_rocksmq._format.from_arrow_to_pages import arrow_page_bodies
from mqplug_rocksmq._format.page import Page, PageBody, PageColumns, encode_single, page_bodies

PAGE_KEY, LOG_RECORD = Struct(">IQ"), Struct("<6Q")


@contextmanager
def writing(directory: Path, load: Load, origin: str, *, sync: bool) -> Iterator[Work]:
    """Prepare to write pages of values or of Arrow arrays into a database of its own."""

    def pages() -> Iterable[PageBody]:
        return (
            arrow_page_bodies({"value": load.table.column("value")}, _now())
            if origin == "arrow"
            else pages_of(load.values)
        )

    with TemporaryDirectory(dir=directory) as path:
        database = open_database(Path(path))
        yield lambda: _write(database, load, pages, sync=sync)
        database.close()


def fill(path: Path, load: Load) -> None:
    """Create the database that `reading` reads."""
    database = open_database(path)
    _write(database, load, lambda: pages_of(load.values), sync=False)
    database.get_column_family("data").flush(True)
    database.close()


def fill_singly(path: Path, load: Load) -> None:
    """Create the same database with a page for each message."""
    database = open_database(path)
    appender = PageAppender(database, sync=False)
    for value in load.values * load.batches:
        appender.append(0, [encode_single(_now(), None, value)])
    appender.close()
    database.get_column_family("data").flush(True)
    database.close()


@contextmanager
def reading(path: Path, form: str) -> Iterator[Work]:
    """Prepare to read all pages and decode them to values, to lists of tuples of all columns, or to Arrow."""
    database = open_database(path)
    yield lambda: _read(database, _FORMS[form])
    database.close()


def open_database(path: Path) -> Rdict:
    """Open or create a database with the plugin's options."""
    options, families = Tuning().families("strict")
    return Rdict(str(path), options, families, AccessType.read_write())


class PageAppender:
    """Appends pages to a database and records the new end of their log: the minimum that a log needs."""

    def __init__(self, database: Rdict, *, sync: bool) -> None:
        self._database = database
        self._data, self._meta = (database.get_column_family_handle(name) for name in ("data", "meta"))
        self._options = WriteOptions()
        self._options.sync = sync
        self._ends: dict[int, int] = {}

    def append(self, partition: int, bodies: Iterable[PageBody]) -> None:
        """Append pages to the log of a partition."""
        end = self._ends.get(partition, 0)
        changes = WriteBatch(raw_mode=True)
        for body in bodies:
            changes.put(PAGE_KEY.pack(partition, end), body.seal(end), self._data)
            end += body.messages
        self._ends[partition] = end
        changes.put(b"log%d" % partition, LOG_RECORD.pack(0, end, end, 0, 0, end), self._meta)
        self._database.write(changes, self._options)

    def close(self) -> None:
        """Release the handles, which would keep a closed database open."""
        del self._data, self._meta


def pages_of(values: Sequence[bytes]) -> Iterable[PageBody]:
    """Return the pages that the plugin would make from these values now."""
    if len(values) == 1:
        return [encode_single(_now(), None, values[0])]
    return page_bodies(PageColumns([_now()] * len(values), values))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _write(database: Rdict, load: Load, pages: Callable[[], Iterable[PageBody]], *, sync: bool) -> int:
    appender = PageAppender(database, sync=sync)
    for number in range(load.batches):
        appender.append(number % load.partitions, pages())
    return load.messages


def _read(database: Rdict, decode: Callable[[int, Page], int]) -> int:
    cursor = database.get_column_family("data").iter()
    cursor.seek_to_first()
    count = 0
    while cursor.valid():
        _, base = PAGE_KEY.unpack(cursor.key())
        count += decode(base, Page(cursor.value()))
        cursor.next()
    return count


def _values(_: int, page: Page) -> int:
    return len(page.values())


def _tuples(base: int, page: Page) -> int:
    nothing = [()] * page.count
    rows = zip(
        range(base, base + page.count), page.times(), page.keys(), page.values(), page.headers() or nothing, strict=True
    )
    kept = list(rows)  # otherwise each tuple reuses the memory of the last one, which no program could keep
    for _, _, _, value, _ in kept:
        assert value
    return len(kept)


def _arrow(_: int, page: Page) -> int:
    return int(page.to_arrow().num_rows)


_FORMS = {"values": _values, "messages": _tuples, "arrow": _arrow}
