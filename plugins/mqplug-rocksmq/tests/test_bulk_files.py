"""Files of stages: their content, their life, and damage to them."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from bulk_loads import Batch, stage, staged, take, waiting
from hypothesis import given, strategies as st
from rocksmq_stores import OpenStore, eventually, extent, new_log, put, values
from store_seam import (
    Store,
    TopicRetention,
    back_up_store,
    check_store,
    files_of,
    repair_store,
    restore_backup,
    stage_small_files,
)

import mqplug
import mqplug.aio
from mqplug import ConfigError, Corrupt

# content -------------------------------------------------------------------------------------------------------


def test_small_writes_share_pages(store: Store) -> None:
    """Batches of any size end up in pages of a good size, and columns that only some batches have are kept."""
    log = new_log(store)
    open_stage = stage(store)
    for number in range(1200):
        keys = [b"k"] if number % 2 else None
        open_stage.write(Batch([b"%d" % number], keys=keys), 10)
    take(store, open_stage.finish(10))
    pages = [part.page for part in store.read(log, 0, 2000)]
    assert [page.count for page in pages] == [1000, 200]
    assert pages[0].keys()[:4] == [None, b"k", None, b"k"]
    assert values(store, log) == [b"%d" % number for number in range(1200)]


def test_several_files(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large stage has several files, each with a part of all partitions, and keeps none of them in memory."""
    stage_small_files(monkeypatch, 100_000)
    store.topics.create("wide", 3, TopicRetention(), 10)
    open_stage = stage(store, "wide")
    for number in range(60):
        open_stage.write(Batch([b"%d" % number * 500] * 10, number % 3), 10)
    assert open_stage._held < 100_000
    found = open_stage.finish(10)
    assert len(waiting(path)) > 3
    take(store, found)
    for partition, log in enumerate(store.topics.get("wide").logs):
        assert values(store, log) == [b"%d" % number * 500 for number in range(partition, 60, 3) for _ in range(10)]


def test_files_of_other_partitions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has only the partitions that were written to since the previous file."""
    stage_small_files(monkeypatch, 100_000)
    store.topics.create("wide", 2, TopicRetention(), 10)
    open_stage = stage(store, "wide")
    for partition in (0, 1, 0):
        open_stage.write(Batch([bytes(100_000)], partition), 10)
    found = open_stage.finish(10)
    assert [len(file.runs) for file in files_of(store.id, [found])] == [1, 1, 1]
    assert {log: end for log, (_, end) in take(store, found).placed.items()} == {0: 2, 1: 1}


# life ----------------------------------------------------------------------------------------------------------


def test_what_nobody_takes_in(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was not ingested for a day is removed, and so is an unfinished one; younger ones stay."""
    new_log(store)
    young, old = staged(store, [b"a"]), staged(store, [b"b"])
    unfinished = path / "staging" / "99.new"
    unfinished.write_bytes(b"part")
    for file in (path / "staging" / "2.sst", unfinished):
        day_ago = time.time() - 24 * 3600 - 10
        os.utime(file, (day_ago, day_ago))
    store._retention.wake()
    eventually(lambda: waiting(path) == ["1.sst"])
    with pytest.raises(Corrupt, match="is gone"):
        take(store, old)
    assert take(store, young).messages == 1


def test_the_same_files_under_another_number(store: Store) -> None:
    """Ingested files cannot be ingested again under another number."""
    log = new_log(store)
    found = staged(store, [b"a"])
    take(store, found, number=0)
    with pytest.raises(Corrupt, match="is gone"):
        take(store, found, number=1)
    assert values(store, log) == [b"a"]


def test_backup(store: Store, path: Path, tmp_path: Path, open_store: OpenStore) -> None:
    """A backup has the ingested messages and their mark."""
    log = new_log(store)
    put(store, log, b"a")
    take(store, staged(store, [b"b", b"c"]))
    back_up_store(store, tmp_path / "backup")
    put(store, log, b"d")
    store.close(10)
    shutil.rmtree(path)
    restore_backup(tmp_path / "backup", path)
    again = open_store(sync="os")
    assert values(again, log) == [b"a", b"b", b"c"]
    assert take(again, staged(again, [b"b", b"c"])).repeated


def test_damage_is_found(store: Store, path: Path, open_store: OpenStore) -> None:
    """A damaged page of an ingested file is ``Corrupt`` to readers, found by a check, and cut out by a repair."""
    log = new_log(store)
    put(store, log, b"a")
    take(store, staged(store, [b"b", b"c"], [b"d"], [b"e"]))
    put(store, log, b"f")
    segment = 1
    [(base, raw)] = store.engine.pages.read(segment, 2)
    store.engine.change(lambda changes: changes.put_page(segment, base, raw[:-1] + bytes([raw[-1] ^ 1])), 10)
    with pytest.raises(Corrupt, match="at offset 3 of partition 0"):
        values(store, log)
    store.close(10)
    assert [(each.start, each.stop) for each in check_store(path).findings if each.start is not None] == [(3, 4)]
    repair_store(path)
    assert check_store(path).sound
    store = open_store(sync="os")
    assert values(store, log) == [b"a", b"b", b"c", b"e", b"f"]
    assert take(store, staged(store, [b"again"])).repeated


def test_a_missing_page_is_found(store: Store) -> None:
    """A missing page of an ingested file is a hole, not a gap."""
    log = new_log(store)
    take(store, staged(store, [b"a"], [b"b"], [b"c"]))
    store.engine.change(lambda changes: changes.drop_pages(1, 1, 2), 10)
    with pytest.raises(Corrupt, match="messages 1 to 1"):
        values(store, log)


# damage --------------------------------------------------------------------------------------------------------


def flip(file: Path) -> None:
    """Change a byte."""
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)


def cut(file: Path) -> None:
    """Cut off the end of a file."""
    os.truncate(file, file.stat().st_size - 1)


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
def test_damaged_files(store: Store, path: Path, harm: Callable[[Path], None]) -> None:
    """A damaged or missing file is ``Corrupt``; nothing is ingested, and the mark is not set."""
    log = new_log(store)
    good, bad = staged(store, [b"a"]), staged(store, [b"b"])
    harm(path / "staging" / "2.sst")
    with pytest.raises(Corrupt) as caught:
        take(store, good, bad)
    assert "Stage the messages again" in str(caught.value)
    assert extent(store, log) == (0, 0)
    assert take(store, good).messages == 1


def test_what_was_made_up(store: Store, path: Path) -> None:
    """Batches that were staged elsewhere, changed or given twice are refused, and nothing is ingested."""
    log = new_log(store)
    good = staged(store, [b"a", b"b"])
    swap = {"count": good.detail.replace("[0,0,2,", "[0,0,3,"), "marks": good.detail.replace("[[0,1000,0]]", "[]")}
    for error, wrong in (
        (ConfigError, attrs.evolve(good, cluster="another")),
        (ConfigError, attrs.evolve(good, detail="[")),
        (ConfigError, attrs.evolve(good, detail='[[1,2,3,"x"]]')),
        (ConfigError, attrs.evolve(good, detail=swap["marks"])),
        (Corrupt, attrs.evolve(good, detail=good.detail.replace("[[1,", "[[77,"))),
        (ConfigError, attrs.evolve(good, detail=good.detail.replace("[[1,", "[[0,"))),
        (Corrupt, attrs.evolve(good, detail=swap["count"])),
    ):
        shutil.copy2(path / "staging" / "1.sst", path / "staging" / "0.sst")
        with pytest.raises(error):
            take(store, wrong)
    assert extent(store, log) == (0, 0)
    fresh = staged(store, [b"c"])
    with pytest.raises(ValueError, match="twice"):
        take(store, fresh, fresh)
    assert take(store, fresh).messages == 1
    assert values(store, log) == [b"c"]


words = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=20,
)


spoilt = st.tuples(st.sampled_from("0123456789,[]{}-."), st.integers(0, 60))


@given(words.map(json.dumps) | st.text() | st.lists(spoilt, min_size=1, max_size=3))
def test_any_words(said: str | list[tuple[str, int]]) -> None:
    """Any description of staged files is understood, or raises ``ConfigError`` or a ``ValueError`` with the reason."""
    good = "[[1,2000,77,[[0,0,2,300,[[0,5,0],[1,9,150]]]]],[2,2000,77,[[0,0,1,300,[[0,5,0]]]]]]"
    if not isinstance(said, str):
        pieces = list(good)
        for piece, at in said:
            pieces[at] = piece
        said = "".join(pieces)
    try:
        found = files_of("store", [mqplug.Staged("rocksmq", "store", "orders", 1, 1, said)])
    except (ConfigError, ValueError):
        return
    assert all(file.messages > 0 for file in found)
