from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from rocksmq_stores import OpenStore, extent, line, new_log, put, python, store_settings, values
from store_seam import WITNESS, Store, pretend_another_boot

from mqplug import Corrupt

WRITER = """
store = open_store(path, store_settings(sync=sys.argv[2]))
log = new_log(store)
print("ready", flush=True)
for number in range(1_000_000):
    put(store, log, *[b"%d" % number] * 3)
    print(number, flush=True)
"""


def written_and_killed(path: Path, sync: str, lines: int) -> int:
    """Have another process write until it is killed, and return the last number that it reported as stored."""
    with python(WRITER, path, sync) as process:
        assert line(process) == "ready"
        said = [line(process) for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        said += process.stdout.read().split("\n")[:-1]
    return int(said[-1])


def newest_wal(path: Path) -> Path:
    """Return the write-ahead log file with the last writes."""
    return max((path / "rocksdb").glob("*.log"))


@pytest.mark.parametrize("sync", ["always", "interval", "os"])
def test_kill_loses_nothing(path: Path, open_store: OpenStore, sync: str) -> None:
    """Messages that a killed process reported as stored are all there, in order, once, followed by at most one send."""
    last = written_and_killed(path, sync, 300)
    store = open_store(sync=sync)
    log = store.topics.get("orders").logs[0]
    found = values(store, log)
    assert found == [b"%d" % number for number in range(len(found) // 3) for _ in range(3)]
    assert len(found) // 3 in {last + 1, last + 2}
    assert put(store, log, b"next") == len(found)


def test_kill_again_and_again(path: Path, open_store: OpenStore) -> None:
    """A store survives many kills with all messages stored in each life."""
    stored = 0
    code = """
store = open_store(path, store_settings())
log = store.topics.get("orders").logs[0] if store.topics.names() else new_log(store)
print(extent(store, log)[1], flush=True)
while True:
    print(put(store, log, b"x"), flush=True)
"""
    for _ in range(5):
        with python(code, path) as process:
            assert int(line(process)) >= stored
            stored = [int(line(process)) for _ in range(20)][-1] + 1
            process.send_signal(signal.SIGKILL)
    store = open_store()
    assert len(values(store, 0)) == extent(store, 0)[1] >= stored


def test_torn_tail(path: Path, open_store: OpenStore) -> None:
    """A last write that only partly reached the disk is dropped, and the store opens."""
    last = written_and_killed(path, "os", 50)
    wal = newest_wal(path)
    with wal.open("r+b") as file:
        file.truncate(wal.stat().st_size - 10)
    store = open_store(sync="os")
    log = store.topics.get("orders").logs[0]
    assert last * 3 <= extent(store, log)[1] <= last * 3 + 3
    assert len(values(store, log)) == extent(store, log)[1]


def test_flipped_byte_in_the_log(path: Path) -> None:
    """Damage in the middle of the write-ahead log is an error, and no messages vanish silently."""
    written_and_killed(path, "os", 50)
    wal = newest_wal(path)
    raw = bytearray(wal.read_bytes())
    raw[len(raw) // 2] ^= 1
    wal.write_bytes(raw)
    with pytest.raises(Corrupt):
        Store(path, store_settings())


def test_lost_end(path: Path) -> None:
    """A write-ahead log that lost more than its torn end is noticed, because the witness recorded more."""
    written_and_killed(path, "always", 100)
    wal = newest_wal(path)
    with wal.open("r+b") as file:
        file.truncate(wal.stat().st_size // 2)
    with pytest.raises(Corrupt, match="safely on disk are gone") as lost:
        Store(path, store_settings())
    assert "mqplug rocksmq repair" in str(lost.value)


def test_accepted_loss(path: Path, open_store: OpenStore) -> None:
    """After a loss is accepted, the rest is kept, and no assigned offset is used again."""
    last = written_and_killed(path, "always", 100)
    wal = newest_wal(path)
    with wal.open("r+b") as file:
        file.truncate(wal.stat().st_size // 2)
    (path / WITNESS).unlink()
    store = open_store()
    log = store.topics.get("orders").logs[0]
    left = extent(store, log)[1]
    assert left < last * 3
    new = put(store, log, b"new")
    assert new > last * 3
    assert values(store, log, left) == [b"new"]
    assert not store.watermarks([log])[0].dense
    assert store.nth_last(log, 2) == left - 1
    assert store.bounds(log) == (0, new)


def test_damaged_page(store: Store) -> None:
    """A page with a changed byte is not delivered, and the error names its place."""
    log = new_log(store)
    put(store, log, b"a")
    put(store, log, b"b" * 100)
    [(base, raw)] = store.engine.pages.read(log, 1)
    store.engine.change(lambda changes: changes.put_page(log, base, raw[:-1] + bytes([raw[-1] ^ 1])), 30)
    with pytest.raises(Corrupt, match="offset 1 of partition 0") as damage:
        values(store, log)
    assert damage.value.topic == "orders"


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_missing_page(store: Store, missing: int) -> None:
    """A missing page is noticed, wherever it was."""
    log = new_log(store)
    for value in (b"a", b"b", b"c"):
        put(store, log, value)
    store.engine.change(lambda changes: changes.drop_pages(log, missing, missing + 1), 30)
    with pytest.raises(Corrupt, match=f"messages {missing} to {missing} of partition 0 are missing"):
        values(store, log)


def test_missing_last_page_is_noticed_at_open(open_store: OpenStore) -> None:
    """A store whose log ends too early does not open."""
    store = open_store(sync="os")
    log = new_log(store)
    put(store, log, b"a")
    put(store, log, b"b")
    store.engine.change(lambda changes: changes.drop_pages(log, 1, 2), 30)
    store.close()
    with pytest.raises(Corrupt, match="ends at 1 but was recorded to end at 2"):
        open_store(sync="os")


def test_copy(path: Path, tmp_path: Path, open_store: OpenStore) -> None:
    """A copy of a closed store is a store with the same messages."""
    store = open_store(sync="os")
    log = new_log(store)
    put(store, log, b"a")
    store.close()
    shutil.copytree(path, tmp_path / "copy")
    copy = Store(tmp_path / "copy", store_settings())
    assert (copy.id, values(copy, log)) == (store.id, [b"a"])
    copy.close()


def test_spoiled_by_another_program(path: Path, open_store: OpenStore) -> None:
    """A store that a program opened in rocksdict's other mode is refused before more damage is done."""
    open_store().close()
    config = path / "rocksdb" / "rocksdict-config.json"
    config.write_text('{"raw_mode":false}')
    with pytest.raises(Corrupt, match="raw mode"):
        Store(path, store_settings())


@pytest.mark.parametrize("left", [b"", b'{"raw_', b"[]"])
def test_killed_while_opening(path: Path, open_store: OpenStore, left: bytes) -> None:
    """A partial rocksdict file of a process that was killed while opening does not block the store."""
    store = open_store(sync="os")
    log = new_log(store)
    put(store, log, b"a")
    store.close()
    (path / "rocksdb" / "rocksdict-config.json").write_bytes(left)
    assert values(open_store(sync="os"), log) == [b"a"]


def test_offsets_are_given_up_when_the_host_died(
    path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the host's death may have lost visible messages, their offsets are never used again."""
    last = written_and_killed(path, "os", 50)
    wal = newest_wal(path)
    with wal.open("r+b") as file:
        file.truncate(wal.stat().st_size // 2)
    pretend_another_boot(monkeypatch)
    open_store(sync="always").close()
    store = open_store(sync="always")
    log = store.topics.get("orders").logs[0]
    left = extent(store, log)[1]
    assert left < last * 3
    assert put(store, log, b"new") > last * 3 + 3
    assert values(store, log, left) == [b"new"]


def test_nothing_is_given_up_where_nothing_was_lost(
    path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``always`` no visible message can be lost, and offsets continue without a gap."""
    written_and_killed(path, "always", 50)
    pretend_another_boot(monkeypatch)
    store = open_store()
    log = store.topics.get("orders").logs[0]
    high = extent(store, log)[1]
    assert put(store, log, b"new") == high
    assert store.watermarks([log])[0].dense
