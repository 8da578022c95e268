"""Merging of small table files, which RocksDB would keep for ever.

A program that opens a store for one message leaves a table of one page. Pages are written in the order of their keys,
so RocksDB never has a reason to merge such tables: it would keep one for each time that the store was opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from mqplug_rocksmq._engine.engine import Engine
from mqplug_rocksmq._engine.rocks import TableFile

_SMALL_TABLE_BYTES: Final = 1 << 20
_MIN_RUN_TABLES: Final = 16


def merge_small_tables(engine: Engine) -> None:
    """Merge each long run of small tables. Others may read and write meanwhile."""
    with engine.lock:
        engine.check()
        tables = engine.pages.tables()
    for first, last in small_table_runs(tables):
        with engine.maintaining:
            engine.pages.merge(first, last)


def small_table_runs(tables: Iterable[TableFile]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the first and last key of each long run of small tables. *tables* are in the order of their keys."""
    for small, run in groupby(tables, lambda table: table.size < _SMALL_TABLE_BYTES):
        found = list(run)
        if small and len(found) >= _MIN_RUN_TABLES:
            yield found[0].first, found[-1].last
