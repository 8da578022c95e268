from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from rocksmq_stores import OpenStore, eventually, extent, new_log, put, tables, values
from store_seam import Store, freed

from mqplug import Error

pytestmark = pytest.mark.python


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000
        monkeypatch.setattr("time.time_ns", lambda: self.now * 1_000_000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the store."""
    return Clock(monkeypatch)


def test_old_messages_go(store: Store, clock: Clock) -> None:
    """Messages are dropped once they were stored longer ago than the retention, whatever their timestamps."""
    log = new_log(store, milliseconds=60_000)
    for _ in range(10):
        put(store, log, b"x", time=5)
        clock.now += 10_000
    store.enforce_retention(clock.now)
    low, high = extent(store, log)
    assert high == 10
    assert 3 <= low <= 5
    store.enforce_retention(clock.now + 100_000)
    assert extent(store, log) == (10, 10)
    assert put(store, log, b"new") == 10
    assert values(store, log, 10) == [b"new"]


@pytest.mark.parametrize("new", [1, 2, 3])
def test_new_messages_stay(store: Store, clock: Clock, new: int) -> None:
    """A few new messages are kept when the old ones before them are dropped."""
    log = new_log(store, milliseconds=60_000)
    put(store, log, b"old")
    clock.now += 100_000
    for _ in range(new):
        put(store, log, b"new")
        clock.now += 2000
    store.enforce_retention(clock.now)
    assert extent(store, log) == (1, 1 + new)
    assert values(store, log, 1) == [b"new"] * new


def test_too_much_goes(store: Store) -> None:
    """The oldest messages are dropped when a partition exceeds its size, within a megabyte."""
    log = new_log(store, size=3 << 20)
    for _ in range(40):
        put(store, log, os.urandom(200_000))
    store.enforce_retention()
    low, high = extent(store, log)
    assert 3 << 20 <= (high - low) * 200_000 <= (4 << 20) + 400_000


@pytest.mark.parametrize("limit", [1 << 20, 20 << 20])
def test_too_much_goes_at_once(open_store: OpenStore, limit: int) -> None:
    """A partition that grows far beyond its limit is trimmed at once, long before the next round of retention."""
    store = open_store(sync="os", retention_interval=100_000)
    large, other = new_log(store, "large", size=limit), new_log(store, "other")
    put(store, other, b"x")
    stored = 0
    for _ in range(300):
        stored += 200_000
        put(store, large, os.urandom(200_000))
    assert stored > 2 * limit
    eventually(lambda: _held(store, large) <= limit + max(1 << 20, limit // 8) + 400_000)
    assert _held(store, large) >= limit - 200_000
    assert extent(store, other) == (0, 1)


def _held(store: Store, log: int) -> int:
    low, high = extent(store, log)
    return (high - low) * 200_000


def test_the_directory_follows(path: Path, open_store: OpenStore) -> None:
    """The directory of a store whose topics keep little stays small, however much is sent through them."""
    store = open_store(sync="os", retention_interval=100_000)
    logs = [new_log(store, f"t{number}", size=2 << 20) for number in range(3)]
    for number in range(1500):
        put(store, logs[number % 3], os.urandom(100_000))
    eventually(lambda: tables(path) < 50_000_000)


def test_nothing_goes_without_limits(store: Store, clock: Clock) -> None:
    """A topic without limits keeps everything."""
    log = new_log(store, milliseconds=None)
    put(store, log, b"x")
    store.enforce_retention(clock.now + 10**12)
    assert extent(store, log) == (0, 1)


def test_it_happens_by_itself(open_store: OpenStore) -> None:
    """Old messages are dropped without a call."""
    store = open_store(sync="os", retention_interval=0.05)
    log = new_log(store, milliseconds=1)
    put(store, log, b"x")
    eventually(lambda: extent(store, log) == (1, 1))


@pytest.mark.parametrize("how", ["trim", "delete"])
def test_room_comes_back(path: Path, store: Store, how: str) -> None:
    """The disk space of trimmed messages and deleted topics is soon free again."""
    log = new_log(store)
    for _ in range(100):
        put(store, log, os.urandom(200_000))
    store.engine.pages.flush()
    assert tables(path) > 15_000_000
    if how == "trim":
        store.trim(log, 100)
    else:
        store.delete_topic("orders")
    eventually(lambda: tables(path) < 1_000_000)


@pytest.mark.parametrize("how", ["trim", "delete", "retain"])
@pytest.mark.parametrize("closing", [False, True])
def test_all_room_comes_back(path: Path, store: Store, how: str, closing: bool) -> None:
    """The space of messages that a caller drops is freed before the store closes, in the log and the ballast too."""
    log = new_log(store)
    new_log(store, "another")
    for _ in range(100):
        put(store, log, os.urandom(200_000))
    assert taken(path) > 40_000_000
    if how == "trim":
        store.trim(log, 100)
    elif how == "retain":
        store.retain("orders", {"size": 1})
    else:
        store.delete_topic("orders")
    if closing:
        store.close(10)
        assert taken(path) < 3_000_000
    eventually(lambda: taken(path) < 3_000_000)


def taken(path: Path) -> int:
    """Return the total size of a store's files on disk."""
    size = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # RocksDB removes files during the scan
            size += file.stat().st_blocks * 512
    return size


def test_closing_breaks_a_compaction_off(path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store closes in time although a compaction would take much longer, and resumes it when opened again."""
    store = open_store(sync="os")
    log = new_log(store)
    put(store, log, b"a")
    running, cancelled = threading.Event(), threading.Event()

    def endless(*_: int) -> None:
        running.set()
        assert cancelled.wait(60)
        raise Error("shutdown in progress")

    monkeypatch.setattr(store.engine.pages, "compact", endless)
    monkeypatch.setattr(store.engine.pages, "cancel", cancelled.set)
    store.trim(log, 1)
    assert running.wait(20)
    store.close(1)
    store = open_store(sync="os")
    assert extent(store, log) == (1, 1)
    eventually(lambda: not freed(store))


def test_freeing_goes_on_after_a_restart(path: Path, open_store: OpenStore) -> None:
    """Space that was not freed before the store closed is freed after it is opened again."""
    store = open_store(sync="os")
    log = new_log(store)
    for _ in range(100):
        put(store, log, os.urandom(200_000))
    store.engine.pages.flush()
    store.topics.delete("orders", 30)  # without a wake-up of the retention thread
    store.close()
    assert tables(path) > 15_000_000
    open_store(sync="os", retention_interval=0.05)
    eventually(lambda: tables(path) < 1_000_000)
