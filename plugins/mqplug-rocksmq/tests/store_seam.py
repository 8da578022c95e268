"""The inside of a store, where its tests meet it: opened without a client, filled, checked, repaired and backed up.

Tests of one format or one engine detail import that from its own module. Everything that many tests need is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mqplug import Log
from mqplug_rocksmq._care.backup import back_up_store, restore_backup
from mqplug_rocksmq._care.check import check_store
from mqplug_rocksmq._care.counting import statistics
from mqplug_rocksmq._care.repair import _rebuild as rebuild, repair_store
from mqplug_rocksmq._driver import batches
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._driver.stage import RocksMQStage
from mqplug_rocksmq._driver.translation import topic_logs
from mqplug_rocksmq._engine import witness
from mqplug_rocksmq._engine.directory import (
    BALLAST,
    DATABASE,
    HAND_OUTS,
    IDENTITY,
    INODES,
    MEMBERS,
    OWNER,
    REPAIRED,
    STAGING,
    STORE_FORMAT,
    WITNESS,
    Identity,
)
from mqplug_rocksmq._engine.ownership import Ownership, read_owner, socket_path
from mqplug_rocksmq._format.keys import FREED, HANDED_OUT, INTENT, StoredPosition
from mqplug_rocksmq._format.page import PageColumns
from mqplug_rocksmq._harness import owned, tear_tail
from mqplug_rocksmq._processes import following_consumer
from mqplug_rocksmq._processes.frames import PROTOCOL, pack_frame
from mqplug_rocksmq._processes.owner import close_store, open_store
from mqplug_rocksmq._store.hand_outs import HandOuts, writes_in_place
from mqplug_rocksmq._store.ingest import IngestOutcome
from mqplug_rocksmq._store.logs import BelowRetained
from mqplug_rocksmq._store.repeated_requests import OnceRequest
from mqplug_rocksmq._store.staging import files_of
from mqplug_rocksmq._store.store import Store
from mqplug_rocksmq._store.topics import TopicRetention

__all__ = [
    "BALLAST", "DATABASE", "HAND_OUTS", "IDENTITY", "INODES", "MEMBERS", "OWNER", "PROTOCOL", "REPAIRED",
    "STAGING", "STORE_FORMAT", "WITNESS", "BelowRetained", "HandOuts", "Identity", "IngestOutcome", "OnceRequest",
    "Ownership", "PageColumns", "RocksMQStage", "Store", "StoreConnection", "StoredPosition", "TopicRetention",
    "back_up_store", "check_store", "close_store", "files_of", "open_store", "owned", "pack_frame", "read_owner",
    "rebuild", "repair_store", "restore_backup", "socket_path", "statistics", "tear_tail", "topic_logs",
    "writes_in_place",
]  # fmt: skip


def freed(store: Store) -> Sequence[object]:
    """Return the notes of logs whose messages are still to be removed."""
    found: Sequence[object] = store.engine.pages.scan(FREED)
    return found


def unfinished_ingest(store: Store) -> bytes | None:
    """Return the note of an ingest that was begun and not finished."""
    note: bytes | None = store.engine.pages.get(INTENT)
    return note


def pretend_another_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the next openers of stores see another boot id, as after the death of the host."""
    monkeypatch.setattr(witness, "_boot_id", lambda: b"another boot")


def stage_small_files(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Make stages begin another file after this many bytes."""
    monkeypatch.setattr("mqplug_rocksmq._driver.stage.STAGED_FILE_BYTES", size)


def fill_disk_of_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the next stages find no space on the disk."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mqplug_rocksmq._store.staging.write_table", full)


def set_clock(monkeypatch: pytest.MonkeyPatch, milliseconds: int) -> None:
    """Stop the clock of stores at this time."""
    monkeypatch.setattr("time.time_ns", lambda: milliseconds * 1_000_000)


def set_clock_of_searches(monkeypatch: pytest.MonkeyPatch, clock: object) -> None:
    """Give members that search for a store's owner this clock."""
    monkeypatch.setattr(following_consumer, "time", clock)


def hand_out_notes(store: Store) -> Sequence[object]:
    """Return the stored notes of messages that shared members hold."""
    found: Sequence[object] = store.journal.notes(HANDED_OUT)
    return found


def cache_pages(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Limit the pages that a shared group keeps of each log to these bytes."""
    monkeypatch.setattr(batches, "_CACHE_BYTES", size)


def forget_pages(driver: Any, log: Log) -> Any:
    """Forget the pages that the group of a shared member has read of a log. Return its store."""
    of_log = driver._sharing._logs[log]
    of_log.cache = batches.PageCache(driver._store, of_log.number, with_keys=False)
    return driver._store
