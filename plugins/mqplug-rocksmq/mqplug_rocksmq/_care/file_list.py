"""RocksDB's list of its files, restored if CURRENT or MANIFEST is damaged: the tables and the log are complete then."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqplug import Error
from mqplug_rocksmq._engine.rocks import Pages, rebuild_database
from mqplug_rocksmq._engine.store_files import readable_records
from mqplug_rocksmq._engine.tuning import Tuning
from mqplug_rocksmq._format.keys import STORE

_ORDERS: Final = (("data", "meta"), ("meta", "data"))
_FAMILY: Final = re.compile(r'\[CFOptions "(data|meta)"\]')


def open_without_list(database: Path, working: Path) -> Pages:
    """Open a copy of a database for reading, in *working*, with a restored list of its files.

    Raise the last error if nothing can be restored.
    """
    manifests = list(database.glob("MANIFEST-*"))
    if len(manifests) == 1:  # of several the newest may be incomplete
        _copy(database, working)
        (working / "CURRENT").write_text(f"{manifests[0].name}\n")
        with suppress(Error):
            return _open(working)
    *others, last = _family_orders(database)
    for order in others:
        with suppress(Error):
            pages = _rebuilt(database, working, order)
            if pages.get(STORE) is not None:
                return pages
            pages.close()
    return _rebuilt(database, working, last)


def _rebuilt(database: Path, working: Path, order: tuple[str, ...]) -> Pages:
    _copy(database, working)
    rebuild_database(working, order)
    return _open(working)


def _open(working: Path) -> Pages:
    return Pages(working, Tuning(), "lenient", read_only=True)


def _family_orders(database: Path) -> Sequence[tuple[str, ...]]:
    """Return the order in which the column families were created; all that are possible if it is not recorded."""
    recorded = {tuple(_FAMILY.findall(file.read_text(errors="replace"))) for file in database.glob("OPTIONS-*")}
    return [order for order in _ORDERS if order in recorded] or _ORDERS


def _copy(database: Path, working: Path) -> None:
    """Copy a database, with links to its tables, which never change."""
    shutil.rmtree(working, ignore_errors=True)
    working.mkdir()
    for file in database.iterdir():
        if file.suffix == ".sst":
            os.link(file, working / file.name)
        elif file.suffix == ".log" or file.name.startswith("MANIFEST-"):
            (working / file.name).write_bytes(readable_records(file.read_bytes()))
        elif file.is_file():
            shutil.copy2(file, working / file.name)
