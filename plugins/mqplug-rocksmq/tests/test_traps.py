"""Traps of RocksDB and rocksdict that a store must avoid.

Each test first shows the trap, on its own database, and then that a store avoids it. A trap that a later rocksdict
has fixed is skipped: then check whether its guard can be removed.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from threading import Event, Semaphore, Thread
from typing import Any

import pytest
from rocksdict import AccessType, DbClosedError, Options, Rdict, WriteBatch, WriteOptions
from rocksmq_stores import OpenStore, eventually, extent, native, new_log, put, store_settings, tables, values
from store_seam import Ownership, Store, close_store, open_store, statistics

import mqplug
import mqplug_rocksmq
from mqplug import AlreadyOpen, Corrupt

seen_here = pytest.mark.skipif(version("rocksdict") != "0.3.29", reason="seen in rocksdict 0.3.29")


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Rdict]:
    """A database without a store."""
    database = Rdict(str(tmp_path / "bare"), Options(raw_mode=True))
    yield database
    with suppress(DbClosedError):
        database.close()


def run(code: str, *arguments: object) -> str:
    """Run code in another process, and return its output; if it fails, the last line of its error."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def sources() -> str:
    """Return all code of the plugin."""
    folder = Path(inspect.getfile(mqplug_rocksmq)).parent
    return "\n".join(file.read_text() for file in folder.rglob("*.py"))


def chosen(path: Path, option: str) -> set[str]:
    """Return the values of an option in the options files that RocksDB wrote."""
    newest = max((path / "rocksdb").glob("OPTIONS-*"))
    lines = (each.strip().partition("=") for each in newest.read_text().splitlines())
    return {value for name, _, value in lines if name == option}


# iterators -----------------------------------------------------------------------------------------------

BOUNDED = """
import sys
from rocksdict import Options, Rdict, ReadOptions
database = Rdict(sys.argv[1], Options(raw_mode=True))
for number in range(300):
    database[b"%03d" % number] = b""
def keys():
    options = ReadOptions()
    options.set_iterate_upper_bound(b"%03d" % 100)
    return database.keys(from_key=b"000", read_opt=options)
found = keys()
others = [b"\\xff" * 4 for _ in range(1000)] + [b"%04d" % number for number in range(1000)]
print(len(list(found)))
"""


@seen_here
def test_bounds_are_freed_too_early(tmp_path: Path) -> None:
    """The upper bound of an iterator dangles once its options are gone, and the iterator ends anywhere."""
    assert run(BOUNDED, tmp_path / "bare") != "100"


def test_no_iterator_has_a_bound(store: Store) -> None:
    """The plugin sets no bounds, and reading a log ends at its end although the next log's pages follow directly."""
    assert "_bound(" not in sources()
    logs = [new_log(store, f"t{number}") for number in range(3)]
    for number in range(100):
        for log in logs:
            put(store, log, b"%d of %d" % (number, log))
    for log in logs:
        assert values(store, log) == [b"%d of %d" % (number, log) for number in range(100)]
        last = store.engine.pages.last(log)
        assert last is not None
        assert last[0] == 99


def spoil_a_table(folder: Path) -> None:
    """Change bytes in the middle of the largest table."""
    table = max(folder.glob("*.sst"), key=lambda file: file.stat().st_size)
    raw = bytearray(table.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 64] = bytes(byte ^ 0xFF for byte in raw[middle : middle + 64])
    table.write_bytes(raw)


def test_errors_end_an_iterator_silently(bare: Rdict, tmp_path: Path) -> None:
    """``items()`` over a damaged table returns some entries, and no error."""
    for number in range(1000):
        bare[b"%04d" % number] = os.urandom(500)
    bare.flush(True)
    bare.close()
    spoil_a_table(tmp_path / "bare")
    again = Rdict(str(tmp_path / "bare"), Options(raw_mode=True))
    assert 0 < len(list(again.items())) < 1000
    again.close()


def test_reading_raises_what_ended_an_iterator(path: Path, open_store: OpenStore) -> None:
    """A store with a damaged table raises once a read reaches the damage; no read ends early."""
    store = open_store(sync="os")
    log = new_log(store)
    for _ in range(100):
        put(store, log, os.urandom(20_000))
    store.close()
    spoil_a_table(path / "rocksdb")
    store = open_store(sync="os")
    with pytest.raises(Corrupt, match="RocksDB found damage"):
        values(store, log)


def test_an_iterator_keeps_the_database_open(tmp_path: Path) -> None:
    """After ``close()`` a database cannot be opened again as long as a forgotten iterator lives."""
    database = Rdict(str(tmp_path / "bare"), Options(raw_mode=True))
    database[b"a"] = b"b"
    forgotten = iter(database.items())
    database.close()
    with pytest.raises(Exception, match="lock hold by current process"):
        Rdict(str(tmp_path / "bare"), Options(raw_mode=True))
    del forgotten
    Rdict(str(tmp_path / "bare"), Options(raw_mode=True)).close()


def test_nothing_keeps_a_store_open(path: Path, open_store: OpenStore) -> None:
    """A closed store releases its database, whatever its user still has: pages, cursors, errors."""
    store = open_store(sync="os")
    log = new_log(store)
    for _ in range(10):
        put(store, log, b"x")
    kept: list[Any] = [store.read(log, 0), statistics(store), store.engine.changes()]
    store.engine.change(lambda changes: changes.drop_pages(log, 5, 6), 10)
    try:
        values(store, log)
    except Corrupt as error:
        kept.append(error)  # with all frames of its traceback
    store.close()
    open_store(sync="os").close()
    assert len(kept) == 4


def test_an_iterator_keeps_dropped_files(bare: Rdict, tmp_path: Path) -> None:
    """A compaction frees the space of dropped entries once the last iterator is gone."""
    for number in range(100):
        bare[b"%03d" % number] = os.urandom(100_000)
    bare.flush(True)
    full = tables(tmp_path / "bare")
    batch = WriteBatch(raw_mode=True)
    batch.delete_range(b"000", b"999")
    bare.write(batch)
    bare.flush(True)
    assert tables(tmp_path / "bare") >= full
    forgotten = iter(bare.items())
    bare.compact_range(None, None)
    assert tables(tmp_path / "bare") >= full
    del forgotten
    bare[b"z"] = b""
    bare.flush(True)
    eventually(lambda: tables(tmp_path / "bare") < full / 10)


def drain(consumer: mqplug.Consumer) -> None:
    """Receive the fetched messages."""
    while consumer.receive(0):
        """Continue."""


def test_an_idle_reader_keeps_no_files(path: Path) -> None:
    """The space of trimmed messages is freed while readers are positioned among them."""
    with (
        mqplug.connect("rocksmq", path=str(path), sync="os") as mq,
        mqplug.connect("rocksmq", path=str(path), sync="os") as other,
    ):
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            for _ in range(100):
                out.send(os.urandom(100_000))
        native(mq).engine.pages.flush()
        full = tables(path / "rocksdb")
        with (
            mq.consumer("orders", start=mqplug.EARLIEST) as reader,
            other.consumer("orders", group="g") as member,
            mq.consumer("orders", group="s", mode="shared") as worker,
        ):
            for each in (reader, member, worker):
                assert each.receive(10) is not None
            mq.trim("orders", {0: mq.watermarks("orders")[0].high})
            eventually(lambda: tables(path / "rocksdb") < full / 10)
            with pytest.raises(mqplug.PositionLost):
                drain(reader)


# locks ---------------------------------------------------------------------------------------------------

OPEN = """
import sys
from rocksdict import Options, Rdict
Rdict(sys.argv[1], Options(raw_mode=True)).close()
print("opened")
"""


def test_reading_a_lock_file_loses_the_lock(bare: Rdict, tmp_path: Path) -> None:
    """RocksDB's own lock is lost when its process closes any descriptor of the file: a second process can open it."""
    folder = tmp_path / "bare"
    assert "While lock file" in run(OPEN, folder)
    (folder / "LOCK").read_bytes()
    assert run(OPEN, folder) == "opened"


def test_ownership_survives_a_copy_of_the_directory(path: Path) -> None:
    """A store keeps its owner when the owner reads every file of it, as a copy of the directory does."""
    store = open_store(path, store_settings(sync="os"))
    try:
        for file in path.rglob("*"):
            if file.is_file():
                file.read_bytes()
        with pytest.raises(AlreadyOpen, match=f"owned by process {os.getpid()}"):
            Ownership(path)
        assert "AlreadyOpen" in run(
            "import sys; from pathlib import Path; from mqplug_rocksmq._engine.ownership import Ownership;"
            "Ownership(Path(sys.argv[1]))",
            path,
        )
    finally:
        close_store(store, 10)


# opening -------------------------------------------------------------------------------------------------

OPEN_IN_OTHER_MODE = """
import sys
from rocksdict import AccessType, DbClosedError, Options, Rdict
Rdict(sys.argv[1], Options(raw_mode=False), access_type=AccessType.read_only()).close()
print("opened")
"""


@seen_here
def test_looking_writes(bare: Rdict, tmp_path: Path) -> None:
    """Opening a database, even read-only, writes into its directory, and in the other mode damages it."""
    bare[b"a"] = b"b"
    bare.close()
    folder = tmp_path / "bare"
    assert run(OPEN_IN_OTHER_MODE, folder) == "opened"
    with pytest.raises(Exception, match="comparator"):
        Rdict(str(folder), Options(raw_mode=True))


def test_a_spoiled_store_is_refused_in_time(path: Path, open_store: OpenStore) -> None:
    """A store that another program damaged like that is refused with a fix, which repairs it."""
    store = open_store(sync="os")
    log = new_log(store)
    put(store, log, b"a")
    store.close()
    assert run(OPEN_IN_OTHER_MODE, path / "rocksdb") == "opened"
    with pytest.raises(Corrupt, match="set raw_mode to true"):
        open_store(sync="os")
    config = path / "rocksdb" / "rocksdict-config.json"
    config.write_text(config.read_text().replace("false", "true"))
    assert values(open_store(sync="os"), log) == [b"a"]


def test_ttl_changes_what_is_stored(tmp_path: Path) -> None:
    """A database with a time to live stores four more bytes with each value, which others then read."""
    folder = str(tmp_path / "bare")
    with_ttl = Rdict(folder, Options(raw_mode=True), access_type=AccessType.with_ttl(1000))
    with_ttl[b"a"] = b"value"
    with_ttl.close()
    without = Rdict(folder, Options(raw_mode=True))
    found = without[b"a"]
    without.close()
    assert found[:5] == b"value"
    assert len(found) == 9


def test_a_store_has_no_ttl(store: Store, path: Path) -> None:
    """Retention is the store's own; a page with four more bytes is not a page, and is not delivered."""
    assert "with_ttl" not in sources()
    log = new_log(store)
    put(store, log, b"a")
    [(base, raw)] = store.engine.pages.read(log, 0)
    store.engine.change(lambda changes: changes.put_page(log, base, raw + b"\x70\x4f\x01\x6b"), 10)
    with pytest.raises(Corrupt):
        values(store, log)


def test_options_are_the_openers(path: Path, open_store: OpenStore) -> None:
    """A store is opened with its opener's options, not with those that RocksDB wrote down before."""
    open_store(memory_max_bytes=64 << 20).close()
    before = chosen(path, "write_buffer_size")
    open_store(memory_max_bytes=512 << 20)
    after = chosen(path, "write_buffer_size")
    assert str(4 << 20) in before
    assert str(32 << 20) in after
    assert str(4 << 20) not in after


def test_column_families_are_fixed(path: Path, open_store: OpenStore) -> None:
    """Any number of topics uses two column families: each one costs milliseconds and memory."""
    store = open_store(sync="os")
    for number in range(20):
        new_log(store, f"t{number}")
    store.close()
    assert sorted(Rdict.list_cf(str(path / "rocksdb"))) == ["data", "default", "meta"]


def test_few_threads_open_files(path: Path, open_store: OpenStore) -> None:
    """RocksDB uses one thread to open tables, not sixteen, which cost more than they gain."""
    open_store()
    assert chosen(path, "max_file_opening_threads") == {"1"}


def test_logs_are_bounded(path: Path, open_store: OpenStore) -> None:
    """RocksDB's own log files, one for each opening, are limited to a few files of a few megabytes."""
    for _ in range(10):
        open_store().close()
    assert len(list((path / "rocksdb").glob("LOG*"))) <= 5
    assert chosen(path, "max_log_file_size") == {str(4 << 20)}


def test_tables_of_short_lives_are_merged(path: Path, open_store: OpenStore) -> None:
    """A store that is opened for each message does not end up with a table for each message."""
    store = open_store(sync="os")
    log = new_log(store)
    for _ in range(40):
        put(store, log, b"x")
        store.close()
        store = open_store(sync="os")
    assert extent(store, log) == (0, 40)
    eventually(lambda: len(list((path / "rocksdb").glob("*.sst"))) < 20)


# lost data -----------------------------------------------------------------------------------------------------

WRITE_AND_DIE = """
import os, sys
from rocksdict import Options, Rdict
database = Rdict(sys.argv[1], Options(raw_mode=True))
for number in range(2000):
    database[b"%04d" % number] = b"x" * 100
os.kill(os.getpid(), 9)
"""


def test_a_flipped_byte_loses_half_silently(tmp_path: Path) -> None:
    """With RocksDB's own recovery mode, damage in the write-ahead log silently loses everything after it."""
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(folder)], check=False)
    wal = max(folder.glob("*.log"))
    raw = bytearray(wal.read_bytes())
    raw[len(raw) // 2] ^= 1
    wal.write_bytes(raw)
    database = Rdict(str(folder), Options(raw_mode=True))
    assert 0 < len(list(database.keys())) < 1500
    database.close()


def test_recovery_is_strict(path: Path, open_store: OpenStore) -> None:
    """A store's recovery tolerates only a torn end; ERR-12 shows that damage is ``Corrupt``."""
    open_store()
    assert chosen(path, "wal_recovery_mode") == {"kTolerateCorruptedTailRecords"}


FORK = """
import os, signal, sys
from rocksdict import Options, Rdict
database = Rdict(sys.argv[1], Options(raw_mode=True))
database[b"parent"] = b""
if os.fork() == 0:
    signal.alarm(5)  # it may hang, too
    database[b"child"] = b""
    os._exit(0)
os.wait()
database.close()
again = Rdict(sys.argv[1], Options(raw_mode=True))
print(list(again.keys()))
again.close()
"""


def test_a_fork_loses_writes_silently(tmp_path: Path) -> None:
    """Writes in the child of a fork are lost; ``test_ownership`` shows ``ForkedClient``."""
    assert run(FORK, tmp_path / "bare") == "[b'parent']"


# deleting ------------------------------------------------------------------------------------------------


def test_dropping_many_pages_is_one_mark(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trim writes a few entries for any number of dropped pages: one for each would slow down all later seeks."""
    log = new_log(store)
    for _ in range(3000):
        put(store, log, b"x")
    written, write = [], store.engine.pages.write

    def count(changes: Any) -> None:
        written.append(changes.batch.len())
        write(changes)

    monkeypatch.setattr(store.engine.pages, "write", count)
    store.trim(log, 2990)
    assert 0 < written[0] < 10
    assert values(store, log, 2990) == [b"x"] * 10


# the interpreter's lock ----------------------------------------------------------------------------------


def test_a_sync_lets_others_run(store: Store, bare: Rdict) -> None:
    """During a sync other threads run: RocksDB's own synced write would hold the interpreter's lock."""
    synced = WriteOptions()
    synced.sync = True
    lock_held = lets_others_run(lambda: bare.put(b"k", bytes(1 << 16), synced), most=50)
    assert ".sync = True" not in sources()
    log = new_log(store)
    assert lets_others_run(store.engine.pages.sync, lambda: put(store, log, bytes(1 << 16)), most=5000)
    if lock_held:
        pytest.skip("RocksDB's own synced write lets others run by now")


def lets_others_run(call: Callable[[], object], before: Callable[[], object] = int, *, most: int) -> bool:
    """Return whether another thread ran during one of *calls* calls.

    Nothing else makes this thread release the interpreter's lock, so if the other ran, the call released the lock.
    """
    ran, go, over = Event(), Semaphore(0), Event()

    def run_on() -> None:
        while not over.is_set():
            go.acquire()
            ran.set()

    other, interval = Thread(target=run_on), sys.getswitchinterval()
    other.start()
    sys.setswitchinterval(1000)
    try:
        for _ in range(most):
            before()
            ran.clear()
            go.release()
            call()
            if ran.is_set():
                return True
            ran.wait()
        return False
    finally:
        sys.setswitchinterval(interval)
        over.set()
        go.release()
        other.join()
