"""The disk space of staged batches, and ingests without space or time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from bulk_loads import read_all, stage_all, staged, take, waiting
from rocksmq_stores import OpenStore, eventually, extent, new_log, put, tables, values
from store_seam import Store, files_of, fill_disk_of_stages, freed, unfinished_ingest

import mqplug
import mqplug.aio
from mqplug import Closed, OutcomeUnknown, Record, StorageFull, Timeout, TopicNotFound
from mqplug_rocksmq import RocksMQStatistics

TOPICS = {"orders": 4}


# disk space ----------------------------------------------------------------------------------------------------


def test_room_comes_back(store: Store, path: Path) -> None:
    """The space of ingested batches is freed: of trimmed ones, and of all when the topic is deleted."""
    log = new_log(store)
    for number in range(3):
        take(store, staged(store, *[[os.urandom(100_000)] * 3 for _ in range(20)]), number=number)
    before = tables(path / "rocksdb")
    store.trim(log, 150, 10)
    eventually(lambda: tables(path / "rocksdb") < before * 0.4)
    assert len(values(store, log, 150)) == 30
    store.delete_topic("orders")
    eventually(lambda: tables(path / "rocksdb") < before * 0.1)
    eventually(lambda: not freed(store))


def test_retention(open_store: OpenStore) -> None:
    """Ingested messages count towards ``retention_bytes``, and their age starts at the ingest."""
    store = open_store(sync="os")
    log = new_log(store, size=3 << 20, milliseconds=60_000)
    for number in range(4):
        take(store, staged(store, *[[os.urandom(1 << 18)] for _ in range(8)], time=5), number=number)
    store.enforce_retention()
    low, high = extent(store, log)
    assert high == 32
    assert 16 <= low <= 21
    store.enforce_retention(int(time.time() * 1000) + 100_000)
    assert extent(store, log) == (32, 32)
    assert put(store, log, b"next") == 32


def test_the_disk_cap(path: Path, open_store: OpenStore) -> None:
    """Ingested messages count towards ``disk_max_bytes``: the oldest messages are dropped."""
    store = open_store(sync="os", disk_max_bytes=64 << 20)
    log = new_log(store)
    for number in range(12):
        take(store, staged(store, *[[os.urandom(1 << 20)] for _ in range(8)]), number=number)
    eventually(lambda: extent(store, log)[0] > 0)
    eventually(lambda: tables(path / "rocksdb") < 64 << 20)
    low, high = extent(store, log)
    assert high == 96
    assert len(values(store, log, low)) == high - low


def test_the_disk_cap_of_stages(open_store: OpenStore) -> None:
    """Staged files count towards ``disk_max_bytes`` too; above half of it, staging is ``StorageFull``."""
    store = open_store(sync="os", disk_max_bytes=64 << 20)
    new_log(store)
    waiting_files: list[mqplug.Staged] = []
    with pytest.raises(StorageFull, match="already staged"):
        waiting_files.extend(staged(store, [os.urandom(1 << 20)] * 4) for _ in range(100))
    assert take(store, *waiting_files).messages == 4 * len(waiting_files)
    staged(store, [b"x"])


def test_statistics(mq: mqplug.Client) -> None:
    """Statistics show staged files separately, and count ingested messages like sent ones."""
    waits = stage_all(mq, "orders", [Record(bytes(1000), partition=1)] * 100)
    before = mq.unwrap(RocksMQStatistics)
    mq.ingest(waits, writer="job", number=0)
    found = mq.unwrap(RocksMQStatistics)
    assert before is not None
    assert found is not None
    assert (before.staged, found.staged) == (waits.size, 0)
    assert [(each.high, each.size > 100_000) for each in found.partitions] == [
        (0, False), (100, True), (0, False), (0, False),
    ]  # fmt: skip


def test_a_deleted_topic(mq: mqplug.Client, path: Path) -> None:
    """Messages staged for a deleted topic are not ingested, and neither is the rest of their batch."""
    mq.create_topic("doomed")
    several = [stage_all(mq, "orders", [b"x"]), stage_all(mq, "doomed", [b"y"])]
    mq.delete_topic("doomed")
    mq.create_topic("doomed")
    with pytest.raises(TopicNotFound):
        mq.ingest(several, writer="job", number=0)
    assert read_all(mq, "orders") == {}
    assert mq.ingest(several[0], writer="job", number=0).messages == 1


# no space, or no time ------------------------------------------------------------------------------------------


def test_no_room_for_a_stage(mq: mqplug.Client, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage without disk space is ``StorageFull``, and leaves nothing."""
    fill_disk_of_stages(monkeypatch)
    with mq.stage("orders") as open_stage:
        open_stage.write([b"x"])
        with pytest.raises(StorageFull):
            open_stage.finish()
        with pytest.raises(Closed):
            open_stage.finish()
    assert waiting(path) == []


def test_no_room_to_take_in(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ingest without disk space stores nothing, and can be repeated later."""
    log = new_log(store)
    found = staged(store, [b"a"])
    with monkeypatch.context() as full:
        full.setattr(store.engine.pages, "ingest", _no_room)
        with pytest.raises(StorageFull):
            take(store, found)
    assert unfinished_ingest(store) is None
    assert extent(store, log) == (0, 0)
    assert not take(store, found).repeated
    assert values(store, log) == [b"a"]


def _no_room(*_: object) -> None:
    raise StorageFull("the disk of the store is full")


@pytest.mark.parametrize("step", [1, 2])
def test_no_room_to_note_it(store: Store, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """If the disk is full when a step is recorded, the step is completed once there is space, or was not begun."""
    log = new_log(store)
    found = staged(store, [b"a", b"b"])
    steps = iter(range(1, 10))
    write = store.engine.pages.write
    with monkeypatch.context() as full:
        full.setattr(store.engine.pages, "write", lambda changes: _no_room() if next(steps) >= step else write(changes))
        full.setattr(store.engine.disk_space, "to_send", lambda: False)
        with pytest.raises(StorageFull if step == 1 else OutcomeUnknown):
            take(store, found)
        assert extent(store, log) == (0, 0)
    assert take(store, found).repeated == (step == 2)
    put(store, log, b"c")
    assert values(store, log) == [b"a", b"b", b"c"]


def test_discarded_in_the_midst(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is discarded after its ingest was interrupted is not ingested later."""
    log = new_log(store)
    found = staged(store, [b"a"])
    with monkeypatch.context() as slow:
        slow.setattr(store.ingestion, "_place", _too_late)
        with pytest.raises(Timeout):
            take(store, found)
    assert unfinished_ingest(store) is not None
    store.ingestion.discard(files_of(store.id, [found]), 10)
    assert not take(store, staged(store, [b"b"])).repeated
    assert values(store, log) == [b"b"]


def _too_late(*_: object) -> None:
    raise Timeout("too late")


def test_no_time(store: Store) -> None:
    """A caller that finds another ingest in progress waits until its timeout, and learns that nothing was done."""
    new_log(store)
    found = staged(store, [b"a"])
    with store.ingestion._busy, pytest.raises(Timeout, match="another ingest"):
        store.ingestion.ingest("job", 0, [], 0.01)
    assert take(store, found).messages == 1
