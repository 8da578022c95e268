"""Batches that are staged as files, and taken in with one step."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain, count, groupby
from pathlib import Path

import attrs
import pytest
from bulk_words import Batch, read_all, records, stage, stage_all, staged, take, waiting
from conftest import OpenStore
from hypothesis import given
from hypothesis import strategies as st
from rocksmq_words import eventually, extent, new_log, put, tables, values

import mqplug
import mqplug.aio
from mqplug import (
    Closed,
    ConfigError,
    Corrupt,
    MessageTooLarge,
    OutcomeUnknown,
    Record,
    StorageFull,
    Timeout,
    TopicNotFound,
)
from mqplug_rocksmq import RocksMQStatistics, _stage, _staging
from mqplug_rocksmq._care._check import check
from mqplug_rocksmq._care._repair import repair
from mqplug_rocksmq._care._restore import restore
from mqplug_rocksmq._layout import FREED, INTENT
from mqplug_rocksmq._staged import files_of
from mqplug_rocksmq._store import Store
from mqplug_rocksmq._topics import Retention


@pytest.fixture
def mq(path: Path) -> Iterator[mqplug.Client]:
    """A client of a store with the topic "orders", of four partitions."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as client:
        client.create_topic("orders", partitions=4)
        yield client


# through a client --------------------------------------------------------------------------------------------


def test_once_and_for_all(mq: mqplug.Client, path: Path) -> None:
    """Nobody reads what is staged until it is taken in; then it is there as if it had been sent."""
    at = 1_700_000_000_000
    batch = [Record(b"v", b"k", [("a", b"1"), ("b", None)], at, 2), Record(None, partition=2), b"bare"]
    found = stage_all(mq, "orders", batch, [Record(b"w", partition=3)])
    assert (found.topic, found.messages) == ("orders", 4)
    assert read_all(mq, "orders") == {}
    done = mq.ingest(found, writer="job", number=0)
    assert (done.messages, done.repeated) == (4, False)
    first, second, *rest = (message for message in mq.read("orders") if message.value != b"bare")
    assert (first.value, first.key, list(first.headers)) == (b"v", b"k", [("a", b"1"), ("b", None)])
    assert (int(first.timestamp.timestamp() * 1000), first.partition) == (at, 2)
    assert (second.value, second.partition, [each.value for each in rest]) == (None, 2, [b"w"])
    assert waiting(path) == []


def test_where_it_lies(mq: mqplug.Client) -> None:
    """An ingest tells the first and the last id in each log, and they are those that readers see."""
    with mq.producer("orders") as out:
        out.send_many(records(10))
    done = mq.ingest(stage_all(mq, "orders", records(50, 100)), writer="job", number=0)
    ids: dict[mqplug.Log, list[mqplug.MessageId]] = {}
    for message in mq.read("orders"):
        if int(message.value or b"") >= 100:
            ids.setdefault(message.id.log, []).append(message.id)
    assert {log: (each.first_id, each.last_id) for log, each in done.placed.items()} == {
        log: (found[0], found[-1]) for log, found in ids.items()
    }


def test_the_same_partitions(mq: mqplug.Client) -> None:
    """A key's messages go to the partition that a producer sends them to, in order."""
    with mq.producer("orders") as out:
        out.send_many(records(200))
    sent = read_all(mq, "orders")
    mq.ingest(stage_all(mq, "orders", records(120), records(80, 120)), writer="job", number=0)
    assert read_all(mq, "orders") == {partition: found * 2 for partition, found in sent.items()}


def test_many_stages_at_once(mq: mqplug.Client) -> None:
    """What several wrote, pickled on its way, is taken in as one, in the order in which it is named."""
    several = [stage_all(mq, "orders", [Record(b"%d" % number, partition=0)]) for number in range(5)]
    passed_on = pickle.loads(pickle.dumps(several[::-1]))
    assert mq.ingest(passed_on, writer="job", number=0).messages == 5
    assert read_all(mq, "orders") == {0: [b"4", b"3", b"2", b"1", b"0"]}


def test_nothing_staged(mq: mqplug.Client) -> None:
    """A stage without messages is taken in too, and sets the mark."""
    empty = stage_all(mq, "orders", [])
    assert (mq.ingest(empty, writer="job", number=0).messages, empty.size) == (0, 0)
    assert mq.ingest(empty, writer="job", number=0).repeated


def test_a_number_once(mq: mqplug.Client, path: Path) -> None:
    """A batch that is written and taken in again appears once; the answer tells where it is."""
    done = mq.ingest(stage_all(mq, "orders", records(20)), writer="job", number=7)
    again = mq.ingest(stage_all(mq, "orders", records(20)), writer="job", number=7)
    assert (again.repeated, again.messages, again.placed) == (True, 20, done.placed)
    older = mq.ingest(stage_all(mq, "orders", records(5)), writer="job", number=3)
    assert (older.repeated, older.messages, older.placed) == (True, 0, {})
    assert waiting(path) == []
    assert not mq.ingest(stage_all(mq, "orders", records(20)), writer="other", number=7).repeated
    assert sum(map(len, read_all(mq, "orders").values())) == 40


def test_readers_wake(mq: mqplug.Client) -> None:
    """A consumer that waits gets what is taken in, and its group goes on from there."""
    with mq.consumer("orders", group="g") as consumer:
        assert consumer.receive(0) is None
        mq.ingest(stage_all(mq, "orders", records(20)), writer="job", number=0)
        got = consumer.receive_many(20, 10)
        while len(got) < 20:
            got = [*got, *consumer.receive_many(20, 10)]
        for message in got:
            consumer.ack(message)
    assert sum(mq.lag("orders", group="g").values()) == 0


@pytest.mark.parametrize("sync", ["always", "os"])
def test_beside_everything_else(path: Path, sync: str) -> None:
    """Batches that are taken in while others send, trim and read go between what is sent, each whole and in order."""
    with mqplug.connect("rocksmq", path=str(path), sync=sync) as mq:
        mq.create_topic("orders")
        ended = threading.Event()
        sent = threading.Thread(target=_send_until, args=(mq, ended))
        sent.start()
        with mq.consumer("orders", start=mqplug.EARLIEST) as reader:
            found: list[bytes] = []
            for number in range(30):
                batch = [b"%d.%d" % (number, each) for each in range(50)]
                mq.ingest(stage_all(mq, "orders", batch), writer="job", number=number)
                found += [message.value or b"" for message in reader.receive_many(200, 0)]
                mq.trim("orders", reader.position("orders"))
            ended.set()
            sent.join(30)
            while more := reader.receive_many(1000, 0):
                found += [message.value or b"" for message in more]
        assert len(found) == mq.watermarks("orders")[0].high.coordinates[0]
        runs = [list(run) for batched, run in groupby(found, lambda value: b"." in value) if batched]
        assert list(chain(*runs)) == [b"%d.%d" % (number, each) for number in range(30) for each in range(50)]
        assert all(len(run) % 50 == 0 for run in runs)
        alone = [int(value) for value in found if b"." not in value]
        assert alone == list(range(len(alone)))


def _send_until(mq: mqplug.Client, ended: threading.Event) -> None:
    with mq.producer("orders") as out:
        for number in count():
            if ended.is_set():
                return
            out.send(b"%d" % number)


def test_arrow(mq: mqplug.Client) -> None:
    """What comes as Arrow is staged as it is, to the partitions of its keys, beside records of the usual kind."""
    pa = pytest.importorskip("pyarrow")
    names = [b"%d" % number for number in range(3000)]
    table = pa.table({"key": pa.array(names, pa.binary()), "value": pa.array([*names[:-1], None], pa.binary())})
    with mq.producer("orders") as out:
        out.send_many(table)
    sent = read_all(mq, "orders")
    with mq.stage("orders") as open_stage:
        open_stage.write(table.slice(0, 10))
        open_stage.write(records(5, 10))
        open_stage.write(table.slice(15))
        mq.ingest(open_stage.finish(), writer="job", number=0)
    assert read_all(mq, "orders") == {partition: found * 2 for partition, found in sent.items()}


def test_leaving_a_stage(mq: mqplug.Client, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the block before ``finish``, by an error or not, leaves no file; a stage that is over refuses."""
    monkeypatch.setattr(_stage, "FILE_BYTES", 1000)
    with pytest.raises(TypeError, match="str"), mq.stage("orders") as left:
        _write_two(left, path)
    with mq.stage("orders") as forgotten:
        forgotten.write(records(2000))
    assert waiting(path) == []
    for act in (lambda: left.write([b"x"]), left.finish):
        with pytest.raises(Closed, match="over"):
            act()


def _write_two(left: mqplug.Stage, path: Path) -> None:
    left.write(records(2000))
    assert waiting(path)
    left.write(["no bytes"])  # type: ignore[list-item]


def test_discard(mq: mqplug.Client, path: Path) -> None:
    """What was staged and is not wanted goes; then it cannot be taken in, and to discard it again is nothing."""
    unwanted = stage_all(mq, "orders", records(10))
    assert len(waiting(path)) == 1
    mq.discard(unwanted)
    mq.discard([unwanted])
    assert waiting(path) == []
    with pytest.raises(Corrupt, match="is gone"):
        mq.ingest(unwanted, writer="job", number=0)
    assert not mq.ingest(stage_all(mq, "orders", records(10)), writer="job", number=0).repeated


def test_what_is_wrong_with_records(mq: mqplug.Client) -> None:
    """What a producer refuses a stage refuses too, before any of the batch is written, and goes on."""
    with mq.stage("orders") as open_stage:
        for error, wrong in (
            (TypeError, "text"),
            (ValueError, Record(b"x", partition=9)),
            (ValueError, Record(b"x", topic="other")),
            (MessageTooLarge, bytes(mq.capabilities.message_max_bytes + 1)),
        ):
            with pytest.raises(error):
                open_stage.write([b"good", wrong])  # type: ignore[list-item]
        open_stage.write([b"fine"])
        assert open_stage.finish().messages == 1


def test_after_close(path: Path) -> None:
    """A stage of a client that was closed refuses; what was finished before outlives it."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        open_stage = mq.stage("orders")
        found = stage_all(mq, "orders", [b"kept"])
    with pytest.raises(Closed):
        open_stage.write([b"x"])
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.ingest(found, writer="job", number=0)
        assert read_all(mq, "orders") == {0: [b"kept"]}


def test_small_writes_share_pages(store: Store) -> None:
    """However small the batches that are written, they lie in pages of a good size; columns that some lack are kept."""
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
    """A large stage is several files, each with a part of all partitions, and nothing of it is kept in memory."""
    monkeypatch.setattr(_stage, "FILE_BYTES", 100_000)
    store.topics.create("wide", 3, Retention(), 10)
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
    """A file has only those partitions that something was written for since the one before it."""
    monkeypatch.setattr(_stage, "FILE_BYTES", 100_000)
    store.topics.create("wide", 2, Retention(), 10)
    open_stage = stage(store, "wide")
    for partition in (0, 1, 0):
        open_stage.write(Batch([bytes(100_000)], partition), 10)
    found = open_stage.finish(10)
    assert [len(file.runs) for file in files_of(store.id, [found])] == [1, 1, 1]
    assert {log: end for log, (_, end) in take(store, found).placed.items()} == {0: 2, 1: 1}


# what is dropped again ---------------------------------------------------------------------------------------


def test_room_comes_back(store: Store, path: Path) -> None:
    """The room of what was taken in comes back: of batches that were trimmed, of all when the topic is deleted."""
    log = new_log(store)
    for number in range(3):
        take(store, staged(store, *[[os.urandom(100_000)] * 3 for _ in range(20)]), number=number)
    before = tables(path / "rocksdb")
    store.trim(log, 150, 10)
    eventually(lambda: tables(path / "rocksdb") < before * 0.4)
    assert len(values(store, log, 150)) == 30
    store.delete_topic("orders")
    eventually(lambda: tables(path / "rocksdb") < before * 0.1)
    eventually(lambda: not store._engine.pages.scan(FREED))


def test_retention(open_store: OpenStore) -> None:
    """What was taken in counts for ``retention_bytes``, and goes by age from when it was taken in."""
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
    """What was taken in counts for ``disk_max_bytes``: the oldest messages go."""
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
    """What waits to be taken in counts for ``disk_max_bytes`` too, and more than half of that is ``StorageFull``."""
    store = open_store(sync="os", disk_max_bytes=64 << 20)
    new_log(store)
    waiting_files: list[mqplug.Staged] = []
    with pytest.raises(StorageFull, match="staged already"):
        waiting_files.extend(staged(store, [os.urandom(1 << 20)] * 4) for _ in range(100))
    assert take(store, *waiting_files).messages == 4 * len(waiting_files)
    staged(store, [b"x"])


def test_a_deleted_topic(mq: mqplug.Client, path: Path) -> None:
    """What was staged for a topic that was deleted is not taken in, nor is anything that came with it."""
    mq.create_topic("doomed")
    several = [stage_all(mq, "orders", [b"x"]), stage_all(mq, "doomed", [b"y"])]
    mq.delete_topic("doomed")
    mq.create_topic("doomed")
    with pytest.raises(TopicNotFound):
        mq.ingest(several, writer="job", number=0)
    assert read_all(mq, "orders") == {}
    assert mq.ingest(several[0], writer="job", number=0).messages == 1


def test_what_nobody_takes_in(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that nobody took in for a day is removed, and one that was left unfinished; younger ones stay."""
    new_log(store)
    young, old = staged(store, [b"a"]), staged(store, [b"b"])
    unfinished = path / "staging" / "99.new"
    unfinished.write_bytes(b"part")
    for file in (path / "staging" / "2.sst", unfinished):
        day_ago = time.time() - _staging.KEPT_FOR - 10
        os.utime(file, (day_ago, day_ago))
    store._janitor.tidy()
    eventually(lambda: waiting(path) == ["1.sst"])
    with pytest.raises(Corrupt, match="is gone"):
        take(store, old)
    assert take(store, young).messages == 1


# what is wrong with files ------------------------------------------------------------------------------------


def flip(file: Path) -> None:
    """Change a byte."""
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)


def cut(file: Path) -> None:
    """Cut its end off."""
    os.truncate(file, file.stat().st_size - 1)


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
def test_damaged_files(store: Store, path: Path, harm: Callable[[Path], None]) -> None:
    """A damaged or missing file is ``Corrupt``; nothing is taken in, and the mark is not set."""
    log = new_log(store)
    good, bad = staged(store, [b"a"]), staged(store, [b"b"])
    harm(path / "staging" / "2.sst")
    with pytest.raises(Corrupt) as caught:
        take(store, good, bad)
    assert "Stage the messages again" in str(caught.value)
    assert extent(store, log) == (0, 0)
    assert take(store, good).messages == 1


def test_what_was_made_up(store: Store, path: Path) -> None:
    """What was staged elsewhere, changed, or said twice is refused, and nothing is taken in."""
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
    """Whatever says what was staged is understood, or is a ``ConfigError``, or a ``ValueError`` that tells why."""
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


def test_the_same_files_under_another_number(store: Store) -> None:
    """What was taken in cannot be taken in again under another number."""
    log = new_log(store)
    found = staged(store, [b"a"])
    take(store, found, number=0)
    with pytest.raises(Corrupt, match="is gone"):
        take(store, found, number=1)
    assert values(store, log) == [b"a"]


# care ----------------------------------------------------------------------------------------------------------


def test_backup(store: Store, path: Path, tmp_path: Path, open_store: OpenStore) -> None:
    """A backup has what was taken in, and knows its mark."""
    log = new_log(store)
    put(store, log, b"a")
    take(store, staged(store, [b"b", b"c"]))
    store.back_up(tmp_path / "backup")
    put(store, log, b"d")
    store.close(10)
    shutil.rmtree(path)
    restore(tmp_path / "backup", path)
    again = open_store(sync="os")
    assert values(again, log) == [b"a", b"b", b"c"]
    assert take(again, staged(again, [b"b", b"c"])).repeated


def test_statistics(mq: mqplug.Client) -> None:
    """What waits is told by itself, and what was taken in is counted like what was sent."""
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


def test_damage_is_found(store: Store, path: Path, open_store: OpenStore) -> None:
    """A damaged page of what was taken in is ``Corrupt`` to readers, found by a check, and cut out by a repair."""
    log = new_log(store)
    put(store, log, b"a")
    take(store, staged(store, [b"b", b"c"], [b"d"], [b"e"]))
    put(store, log, b"f")
    segment = 1
    [(base, raw)] = store._engine.pages.read(segment, 2)
    store._engine.change(lambda changes: changes.put_page(segment, base, raw[:-1] + bytes([raw[-1] ^ 1])), 10)
    with pytest.raises(Corrupt, match="at offset 3 of partition 0"):
        values(store, log)
    store.close(10)
    assert [(each.start, each.stop) for each in check(path).findings if each.start is not None] == [(3, 4)]
    repair(path)
    assert check(path).sound
    store = open_store(sync="os")
    assert values(store, log) == [b"a", b"b", b"c", b"e", b"f"]
    assert take(store, staged(store, [b"again"])).repeated


def test_a_missing_page_is_found(store: Store) -> None:
    """A page that is missing from what was taken in is a hole, not a gap."""
    log = new_log(store)
    take(store, staged(store, [b"a"], [b"b"], [b"c"]))
    store._engine.change(lambda changes: changes.drop_pages(1, 1, 2), 10)
    with pytest.raises(Corrupt, match="messages 1 to 1"):
        values(store, log)


# when there is no room, or no time -----------------------------------------------------------------------------


def test_no_room_for_a_stage(mq: mqplug.Client, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that finds no room is ``StorageFull``, and leaves nothing behind."""
    monkeypatch.setattr(_staging, "write_table", _full)
    with mq.stage("orders") as open_stage:
        open_stage.write([b"x"])
        with pytest.raises(StorageFull):
            open_stage.finish()
        with pytest.raises(Closed):
            open_stage.finish()
    assert waiting(path) == []


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_no_room_to_take_in(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room to take a batch in nothing of it is there, and it can be taken in later."""
    log = new_log(store)
    found = staged(store, [b"a"])
    with monkeypatch.context() as full:
        full.setattr(store._engine.pages, "ingest", _no_room)
        with pytest.raises(StorageFull):
            take(store, found)
    assert store._engine.pages.get(INTENT) is None
    assert extent(store, log) == (0, 0)
    assert not take(store, found).repeated
    assert values(store, log) == [b"a"]


def _no_room(*_: object) -> None:
    raise StorageFull("the disk of the store is full")


@pytest.mark.parametrize("step", [1, 2])
def test_no_room_to_note_it(store: Store, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Where the disk is full when a step is to be noted, it is done once when there is room, or was not begun."""
    log = new_log(store)
    found = staged(store, [b"a", b"b"])
    steps = iter(range(1, 10))
    write = store._engine.pages.write
    with monkeypatch.context() as full:
        full.setattr(
            store._engine.pages, "write", lambda changes: _no_room() if next(steps) >= step else write(changes)
        )
        full.setattr(store._engine, "_room", lambda: False)
        with pytest.raises(StorageFull if step == 1 else OutcomeUnknown):
            take(store, found)
        assert extent(store, log) == (0, 0)
    assert take(store, found).repeated == (step == 2)
    put(store, log, b"c")
    assert values(store, log) == [b"a", b"b", b"c"]


def test_discarded_in_the_midst(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is discarded after its ingest was broken off is not taken in later."""
    log = new_log(store)
    found = staged(store, [b"a"])
    with monkeypatch.context() as slow:
        slow.setattr(store.ingestion, "_place", _too_late)
        with pytest.raises(Timeout):
            take(store, found)
    assert store._engine.pages.get(INTENT) is not None
    store.ingestion.discard(files_of(store.id, [found]), 10)
    assert not take(store, staged(store, [b"b"])).repeated
    assert values(store, log) == [b"b"]


def _too_late(*_: object) -> None:
    raise Timeout("too late")


def test_no_time(store: Store) -> None:
    """Who finds another one taking in waits as long as it may, and is told that nothing was done."""
    new_log(store)
    found = staged(store, [b"a"])
    with store.ingestion._busy, pytest.raises(Timeout, match="others"):
        store.ingestion.ingest("job", 0, [], 0.01)
    assert take(store, found).messages == 1


# with await ----------------------------------------------------------------------------------------------------


def test_with_await(path: Path) -> None:
    """Stages are written, taken in and discarded in an event loop too."""

    async def story() -> None:
        async with mqplug.aio.connect("rocksmq", path=str(path)) as mq:
            await mq.create_topic("orders")
            async with mq.stage("orders") as open_stage:
                await open_stage.write([b"a", b"b"])
                found = await open_stage.finish()
            unwanted = await mq.stage("orders")
            await unwanted.write([b"c"])
            await unwanted.discard()
            assert (await mq.ingest(found, writer="job", number=0)).messages == 2
            await mq.discard(found)
            assert [message.value async for message in mq.read("orders")] == [b"a", b"b"]

    asyncio.run(story())
