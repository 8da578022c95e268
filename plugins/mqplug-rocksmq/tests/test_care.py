"""Checking, repairing, backing up and restoring a store."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksmq_stores import OpenStore, extent, new_log, nightly, put, python, store_settings, values
from store_seam import (
    BALLAST,
    DATABASE,
    IDENTITY,
    INODES,
    REPAIRED,
    WITNESS,
    Store,
    StoredPosition,
    TopicRetention,
    back_up_store,
    check_store,
    repair_store,
    restore_backup,
    statistics,
)

from mqplug import AlreadyOpen, ConfigError, Corrupt
from mqplug_rocksmq._care import counting
from mqplug_rocksmq._care.damage import Finding
from mqplug_rocksmq._engine.rocks import Changes
from mqplug_rocksmq._format.hand_out_notes import notes_key, numbered_key
from mqplug_rocksmq._format.keys import LOG, TIME, group_key, log_key, position_value, topic_key
from mqplug_rocksmq._format.page import Page, reseal

Change = Callable[[Store, Changes], None]


def filled(open_store: OpenStore, pages: int = 10, size: int = 10) -> Store:
    """Return a store with the topic "orders", with ten messages in each page, and a group."""
    store = open_store(sync="os")
    log = new_log(store)
    for number in range(pages):
        put(store, log, *(b"%d" % each * size for each in range(10 * number, 10 * number + 10)), time=1000 + number)
    store.groups.store("billing", {log: StoredPosition(15, ((20, 25),))}, 10)
    return store


def damaged(store: Store, change: Change) -> None:
    """Write changes past the store's methods, and close the store."""
    store.engine.change(lambda changes: change(store, changes), 10)
    store.close(10)


def drop_page(base: int) -> Change:
    """Remove a page."""
    return lambda _, changes: changes.drop_pages(0, base, base + 1)


def spoil_page(base: int) -> Change:
    """Change a byte of a page."""

    def change(store: Store, changes: Changes) -> None:
        [(_, raw)] = store.engine.pages.read(0, base)
        changes.put_page(0, base, raw[:-1] + bytes([raw[-1] ^ 1]))

    return change


def gone(findings: list[Finding]) -> list[tuple[int, int]]:
    """Return the messages that are reported as missing."""
    return [(each.start, each.stop) for each in findings if each.start is not None and each.stop is not None]


def by_offset(store: Store, log: int) -> dict[int, bytes | None]:
    """Return all messages of a log."""
    found: dict[int, bytes | None] = {}
    offset = extent(store, log)[0]
    while slices := store.read(log, offset):
        for part in slices:
            found |= enumerate(part.page.values()[part.start : part.stop], part.base + part.start)
        offset = slices[-1].end
    return found


def test_sound(path: Path, open_store: OpenStore) -> None:
    """A sound store is found sound, and everything in it is counted."""
    filled(open_store).close(10)
    report = check_store(path)
    assert report.findings == []
    assert (report.topics, report.groups, report.pages, report.messages) == (1, 1, 10, 100)


def test_sound_after_everything(path: Path, open_store: OpenStore) -> None:
    """A store is sound after trims, deletions, added partitions and reopening."""
    store = filled(open_store)
    store.trim(0, 33)
    store.topics.grow("orders", 3, 10)
    put(store, new_log(store, "other"), b"x")
    store.delete_topic("other")
    store.close(10)
    store = open_store(sync="os")
    put(store, 0, b"later", time=5)
    store.trim(0, 101)
    store.close(10)
    report = check_store(path)
    assert (report.findings, report.messages) == ([], 0)


@pytest.mark.parametrize("harm", [drop_page, spoil_page])
@pytest.mark.parametrize("base", [0, 40, 90])
def test_repair(path: Path, open_store: OpenStore, harm: Callable[[int], Change], base: int) -> None:
    """The messages of a damaged page are reported; all others keep their offsets, and readers see a gap."""
    store = filled(open_store)
    before = by_offset(store, 0)
    damaged(store, harm(base))
    lost = [(base, base + 10)]
    assert gone(check_store(path).findings) == lost
    done = repair_store(path)
    assert gone(done.report.findings) == lost
    assert check_store(path).sound
    store = open_store(sync="os")
    assert by_offset(store, 0) == {offset: each for offset, each in before.items() if not base <= offset < base + 10}
    assert put(store, 0, b"next") == 100
    assert store.read(0, base)[0].base == (100 if base == 90 else base + 10)
    assert not store.watermarks([0])[0].dense
    assert store.groups.position("billing", 0) == StoredPosition(15, ((20, 25),))


def test_a_repaired_store_repairs_again(path: Path, open_store: OpenStore) -> None:
    """A gap that a repair left is not damage, not even next to later damage."""
    damaged(filled(open_store), drop_page(20))
    repair_store(path)
    damaged(open_store(sync="os"), drop_page(50))
    assert gone(repair_store(path).report.findings) == [(50, 60)]
    store = open_store(sync="os")
    assert len(by_offset(store, 0)) == 80


def test_the_damaged_store_is_kept(path: Path, open_store: OpenStore) -> None:
    """A repair keeps the damaged store as a store beside the database, unless it is called without a backup."""
    damaged(filled(open_store), drop_page(20))
    kept = repair_store(path).damaged
    assert kept is not None
    assert kept.parent == path
    assert gone(check_store(kept).findings) == [(20, 30)]
    shutil.rmtree(kept)
    damaged(open_store(sync="os"), drop_page(50))
    assert repair_store(path, backup=False).damaged is None
    assert {each.name for each in path.iterdir()} <= {DATABASE, WITNESS, IDENTITY, BALLAST, INODES, "owner"}


def test_a_sound_store_is_left_alone(path: Path, open_store: OpenStore) -> None:
    """Repairing a sound store changes nothing."""
    filled(open_store).close(10)
    before = sorted(each.name for each in (path / DATABASE).glob("*.sst"))
    assert repair_store(path).report.sound
    assert sorted(each.name for each in (path / DATABASE).glob("*.sst")) == before


def test_an_open_store_is_left_alone(path: Path) -> None:
    """A store that a process has open is neither checked in place nor repaired."""
    with python(
        "store = open_store(path, store_settings())\nprint(1, flush=True)\nthreading.Event().wait()", path
    ) as it:
        assert it.stdout is not None
        assert it.stdout.readline()
        with pytest.raises(AlreadyOpen, match=str(it.pid)):
            check_store(path)
        with pytest.raises(AlreadyOpen, match=str(it.pid)):
            repair_store(path)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_tables(path: Path, open_store: OpenStore, seed: int) -> None:
    """Whichever bytes of a table are damaged, the kept messages are the stored ones, and the others are reported."""
    chance = random.Random(seed)
    store = filled(open_store, pages=400, size=500)
    before = by_offset(store, 0)
    store.close(10)
    largest = max((path / DATABASE).glob("*.sst"), key=lambda file: file.stat().st_size)
    raw = bytearray(largest.read_bytes())
    for _ in range(3):
        raw[chance.randrange(len(raw) * 9 // 10)] ^= 1 << chance.randrange(8)
    largest.write_bytes(raw)
    report = repair_store(path).report
    assert not report.sound
    assert check_store(path).findings == []
    lost = {offset for start, stop in gone(report.findings) for offset in range(start, stop)}
    after = by_offset(open_store(sync="os"), 0)
    assert lost
    assert after == {offset: each for offset, each in before.items() if offset not in lost}


def test_damaged_write_ahead_log(path: Path, tmp_path: Path) -> None:
    """Damage in the write-ahead log costs at most the messages after it, and no offset is assigned twice."""
    code = """
store = open_store(path, store_settings(sync="os"))
log = new_log(store)
for number in range(200):
    put(store, log, b"%d" % number)
print(1, flush=True)
threading.Event().wait()
"""
    with python(code, path) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.kill()
    wal = max((path / DATABASE).glob("*.log"))
    raw = bytearray(wal.read_bytes())
    raw[len(raw) // 2] ^= 1
    wal.write_bytes(raw)
    assert not check_store(path).sound
    repair_store(path)
    assert check_store(path).sound

    store = Store(path, store_settings())
    found = by_offset(store, 0)
    assert all(each == b"%d" % offset for offset, each in found.items())
    assert len(found) < 200
    assert put(store, 0, b"next") >= 200
    store.close(10)


@pytest.mark.parametrize("lost", ["MANIFEST-*", "CURRENT", "*.sst"])
def test_lost_files(path: Path, open_store: OpenStore, lost: str) -> None:
    """A database that lost a file of its own does not open, and a repair keeps the content of its other files."""
    store = filled(open_store)
    store.engine.pages.flush()
    put(store, 0, b"in a table of its own")
    store.close(10)
    file = max((path / DATABASE).glob(lost), key=lambda each: each.stat().st_size)
    file.unlink()
    assert not check_store(path).sound
    report = repair_store(path).report
    assert check_store(path).findings == []
    store = open_store(sync="os")
    for log in [log for name in store.topics.names() for log in store.topics.get(name).logs]:
        assert all(each == b"%d" % at * 10 for at, each in by_offset(store, log).items() if at < 100)
    assert report.messages in {101, 1, 100}


def test_lost_end(path: Path, open_store: OpenStore) -> None:
    """If the witness recorded more changes than there are, a repair accepts the loss, and reuses no offset."""
    store = filled(open_store)
    store.close(10)
    shutil.copytree(path / DATABASE, path.parent / "older")
    store = open_store(sync="os")
    for _ in range(5):
        put(store, 0, b"more")
    store.close(10)
    shutil.rmtree(path / DATABASE)
    (path.parent / "older").rename(path / DATABASE)
    with pytest.raises(Corrupt, match="mqplug rocksmq repair"):
        open_store(sync="os")
    assert "5 changes that were safely on disk are gone" in check_store(path).findings[0].what
    repair_store(path)
    store = open_store(sync="os")
    assert len(by_offset(store, 0)) == 100
    assert put(store, 0, b"next") >= 105


def test_lost_topic(path: Path, open_store: OpenStore) -> None:
    """Messages of a lost topic are kept under another name."""
    store = filled(open_store)
    before = by_offset(store, 0)
    damaged(store, lambda _, changes: changes.delete_copied(topic_key("orders")))
    assert {each.topic for each in repair_store(path).report.findings} == {"recovered-0"}
    store = open_store(sync="os")
    assert store.topics.get("recovered-0").logs == (0,)
    assert by_offset(store, 0) == before


@pytest.mark.parametrize("lost", ["record", "copy"])
def test_copied_topic(path: Path, open_store: OpenStore, lost: str) -> None:
    """A topic's record is stored twice: if one copy is lost, a check finds that and a repair uses the other."""
    store = filled(open_store)
    topic = store.topics.get("orders")

    def lose(_: Store, changes: Changes) -> None:
        changes.delete_copied(topic_key("orders"))
        if lost == "copy":
            changes.put(topic_key("orders"), topic.value)
        else:
            changes.batch.put(topic_key("orders"), topic.value)

    damaged(store, lose)
    assert [(each.topic, lost in each.what) for each in check_store(path).findings] == [("orders", True)]
    repair_store(path)
    assert check_store(path).sound
    assert open_store(sync="os").topics.get("orders") == topic


@pytest.mark.parametrize("where", [0, *nightly(0.25), 0.5, *nightly(0.75), 1])
@pytest.mark.parametrize("copies", [False, *nightly(True)])
def test_damaged_table_of_small_values(path: Path, open_store: OpenStore, where: float, copies: bool) -> None:
    """Sixteen damaged bytes in the table of small values, or of copies, lose no message, and all keep their ids."""
    store = filled(open_store)
    store.topics.create("deleted", 1, TopicRetention(), 10)
    store.topics.delete("deleted", 10)
    before, topic = by_offset(store, 0), store.topics.get("orders")
    store.close(10)
    tables = {file: file.read_bytes() for file in (path / DATABASE).glob("*.sst")}
    [small_values] = [file for file, raw in tables.items() if b"logs" in raw and (b"billing" in raw) != copies]
    raw = bytearray(small_values.read_bytes())
    start = int((len(raw) - 16) * where)
    raw[start : start + 16] = bytes(byte ^ 0x55 for byte in raw[start : start + 16])
    small_values.write_bytes(raw)
    repair_store(path)
    assert check_store(path).findings == []
    store = open_store(sync="os")
    assert store.topics.names() == ["orders"]
    assert store.topics.get("orders") == topic
    assert by_offset(store, 0) == before


def test_lost_record(path: Path, open_store: OpenStore) -> None:
    """A log whose record was lost is rebuilt from its pages, and reuses no offset."""
    store = filled(open_store)
    before = by_offset(store, 0)
    damaged(store, lambda _, changes: changes.delete(log_key(0, LOG)))
    assert "its record is missing" in {each.what for each in repair_store(path).report.findings}
    store = open_store(sync="os")
    assert by_offset(store, 0) == before
    assert put(store, 0, b"next") > 100


def test_lost_time_index(path: Path, open_store: OpenStore) -> None:
    """Missing entries of a time index are found and added."""
    store = filled(open_store)
    damaged(store, lambda _, changes: changes.delete_range(log_key(0, TIME), log_key(1, TIME)))
    assert "time index" in check_store(path).findings[0].what
    repair_store(path)
    store = open_store(sync="os")
    assert [store.first_at(0, 1000 + number) for number in range(10)] == list(range(0, 100, 10))


@pytest.mark.parametrize(
    "place", [StoredPosition(1000), StoredPosition(10, ((20, 15),)), StoredPosition(30, ((20, 25),))]
)
def test_impossible_place(path: Path, open_store: OpenStore, place: StoredPosition) -> None:
    """An impossible group position is found, and repaired so that no unacked message is skipped."""
    damaged(filled(open_store), lambda _, changes: changes.put(group_key(0, "billing"), position_value(place)))
    assert "'billing'" in check_store(path).findings[0].what
    repair_store(path)
    assert open_store(sync="os").groups.position("billing", 0) == StoredPosition(min(place.offset, 100))


@pytest.mark.parametrize("key", [topic_key("torn"), numbered_key(notes_key(0, "billing"), 7)])
def test_what_cannot_be_understood(path: Path, open_store: OpenStore, key: bytes) -> None:
    """Small values that cannot be decoded are reported, and left out of a repaired store."""
    damaged(filled(open_store), lambda _, changes: changes.put(key, b'{"logs":[1'))
    assert "cannot be understood" in check_store(path).findings[0].what
    repair_store(path)
    assert not check_store(path).findings
    assert open_store(sync="os").topics.names() == ["orders"]


def test_interrupted_repair(path: Path, open_store: OpenStore) -> None:
    """A store whose repair was killed before its database was in place opens only after the next repair."""
    store = filled(open_store)
    before = by_offset(store, 0)
    store.close(10)
    (path / DATABASE).rename(path / REPAIRED)
    with pytest.raises(Corrupt, match="mqplug rocksmq repair"):
        open_store(sync="os")
    assert not (path / DATABASE).exists()
    assert repair_store(path).report.sound
    assert by_offset(open_store(sync="os"), 0) == before


REPAIR = """
from mqplug_rocksmq._care.repair import repair_store
print(1, flush=True)
repair_store(path)
"""


@pytest.mark.parametrize("milliseconds", [2, 15, 30, 60])
def test_a_repair_that_is_killed(path: Path, open_store: OpenStore, milliseconds: int) -> None:
    """A repair that is killed at any instant loses nothing that the next one could salvage."""
    store = filled(open_store, pages=300, size=200)
    before = by_offset(store, 0)
    damaged(store, drop_page(1000))
    with python(REPAIR, path) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        threading.Event().wait(milliseconds / 1000)
        process.kill()
    repair_store(path)
    assert check_store(path).sound
    kept = {offset: each for offset, each in before.items() if not 1000 <= offset < 1010}
    assert by_offset(open_store(sync="os"), 0) == kept


def test_damaged_name(path: Path, open_store: OpenStore) -> None:
    """A store with a damaged identity file is refused, and repaired with its old id."""
    store = filled(open_store)
    store.close(10)
    (path / IDENTITY).write_text("{")
    with pytest.raises(Corrupt, match=IDENTITY):
        open_store(sync="os")
    repair_store(path)
    assert open_store(sync="os").id == store.id


def test_reseal(store: Store) -> None:
    """A page that is resealed to follow another offset keeps its messages."""
    log = new_log(store)
    put(store, log, b"a", None)
    [(_, raw)] = store.engine.pages.read(log, 0)
    again = Page(reseal(raw, 17))
    assert (again.before, again.values()) == (17, [b"a", None])
    assert reseal(again.raw, 0) == raw


def test_backup_under_load(path: Path, tmp_path: Path, open_store: OpenStore) -> None:
    """A backup during writes has the content of the store at one instant."""
    store = open_store(sync="os")
    first, second = new_log(store, "first"), new_log(store, "second")
    ending = threading.Event()

    def write() -> None:
        while not ending.is_set():
            put(store, first, b"x" * 1000)
            put(store, second, b"x" * 1000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            back_up_store(store, tmp_path / f"backup-{number}")
    finally:
        ending.set()
        writer.join()
    store.close(10)
    for number in range(3):
        restore_backup(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}")
        copy = open_copy(tmp_path / f"restored-{number}")
        counts = [len(values(copy, log)) for log in (first, second)]
        assert counts[0] - counts[1] in {0, 1}
        assert copy.id == store.id
        copy.close(10)


def open_copy(path: Path) -> Store:
    """Open the copied store."""
    return Store(path, store_settings())


def test_nothing_is_overwritten(path: Path, tmp_path: Path, open_store: OpenStore) -> None:
    """Neither backup nor restore overwrites anything."""
    store = filled(open_store)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").touch()
    with pytest.raises(ConfigError, match="not an empty directory"):
        back_up_store(store, taken)
    back_up_store(store, tmp_path / "backup")
    with pytest.raises(ConfigError, match="not an empty directory"):
        restore_backup(tmp_path / "backup", path)
    with pytest.raises(ConfigError, match="is not a backup"):
        restore_backup(taken, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_damaged_backup(tmp_path: Path, open_store: OpenStore) -> None:
    """A damaged backup is not restored, and nothing of it is left."""
    store = filled(open_store)
    store.engine.change(lambda changes: changes.drop_pages(0, 20, 21), 10)
    back_up_store(store, tmp_path / "backup")
    with pytest.raises(Corrupt, match="messages are missing"):
        restore_backup(tmp_path / "backup", tmp_path / "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup", "store"]


def test_writers_go_on_while_it_is_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others can write, create and delete between two parts of a count; each topic is counted once or not at all."""
    log = new_log(store, "before")
    for number in range(10):
        new_log(store, f"topic-{number}")
    others: list[int] = []

    def meanwhile(_: float) -> None:
        others.append(put(store, log, b"x"))
        new_log(store, f"later-{len(others)}")
        if len(others) == 1:
            store.delete_topic("topic-9")

    monkeypatch.setattr(counting, "SCAN_VALUES", 3)
    monkeypatch.setattr(counting, "sleep", meanwhile)
    counted = [each.topic for each in statistics(store).partitions]
    assert len(others) >= 3
    assert set(counted) >= {f"topic-{number}" for number in range(9)}
    assert len(set(counted)) == len(counted)
    assert "topic-9" not in counted


def test_statistics(store: Store) -> None:
    """Statistics report the stored messages, the groups' positions, and how long writes took."""
    log = new_log(store)
    for _ in range(5):
        put(store, log, b"x" * 1000, b"y" * 1000)
    store.groups.store("billing", {log: StoredPosition(2, ((4, 5),))}, 10)
    store.trim(log, 2)
    found = statistics(store)
    [partition] = found.partitions
    assert (partition.topic, partition.low, partition.high) == ("orders", 2, 10)
    assert 8_000 < partition.size < 12_000
    [group] = found.groups
    assert (group.group, group.position, group.lag, group.acked) == ("billing", 2, 7, 1)
    assert found.writes.count >= 8
    assert 0 < found.writes.percentile(50) <= found.writes.percentile(99) <= found.writes.longest
    assert found.disk >= found.log > 0
