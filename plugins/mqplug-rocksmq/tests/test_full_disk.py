"""A full disk: what a store can still do, and the ballast that it uses for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rocksmq_stores import OpenStore, in_a_namespace, native, new_log, nightly, put, values
from store_seam import BALLAST, back_up_store, statistics

import mqplug
import mqplug_rocksmq
from mqplug import StorageFull
from mqplug_rocksmq import RocksMQStatistics

WORDS = """
import os, signal, subprocess, sys, time
from contextlib import suppress
from pathlib import Path
import mqplug
from mqplug_rocksmq import RocksMQStatistics
disk = Path(sys.argv[1])
path = disk / "store"

def connect(sync="os"):
    return mqplug.connect("rocksmq", path=str(path), sync=sync, timeout=10)

def others_fill_it():
    with open(disk / "other", "ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))

def others_fill_the_rest():  # and take nothing of the ballast, which a store gives up for as long as it compacts
    ballast = path / "ballast"
    for _ in range(500):
        if size := ballast.stat().st_blocks:
            others_fill_it()
            if ballast.stat().st_blocks >= size:
                return
            others_leave()
        time.sleep(0.02)
    sys.exit("the ballast was given up all the time")

def others_leave():
    (disk / "other").unlink(missing_ok=True)

def send_until_refused(out, topics, size=100_000, known=None):
    known = {topic: [] for topic in topics} if known is None else known
    try:
        while True:
            for topic in topics:
                known[topic].append(out.send(os.urandom(size), topic=topic).coordinates[0])
    except mqplug.StorageFull as error:
        return known, error

def offsets(mq, topic):
    return [message.id.coordinates[0] for message in mq.read(topic)]

def trim_half(mq, topic):
    ids = [message.id for message in mq.read(topic)]
    middle = ids[len(ids) // 2]
    mq.trim(topic, {0: mqplug.Position(middle.log, middle.coordinates)})
    return [each.coordinates[0] for each in ids[len(ids) // 2:]]

def soon(call, seconds=30):
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except mqplug.StorageFull:
            if time.monotonic() >= end:
                raise
            time.sleep(0.02)
"""

AS_ONE = """
with connect(sys.argv[2]) as mq:
    for topic in "abc":
        mq.create_topic(topic)
    with mq.producer() as out, mq.consumer("a", group="g") as reader:
        known, error = send_until_refused(out, "abc")
        print(type(error).__name__, error.operation, len(known["a"]) > 10)
        others_fill_the_rest()
        print(offsets(mq, "a") == known["a"])
        reader.ack(reader.receive(10))
        reader.commit()
        print(mq.positions("a", group="g")[0].position.coordinates)
        left = trim_half(mq, "a")
        print(offsets(mq, "a") == left)
        mq.delete_topic("b")
        mq.create_topic("new")
        print(sorted(mq.topics()))
        print(soon(lambda: out.send(b"again", topic="a")).coordinates[0] == known["a"][-1] + 1)
    print(offsets(mq, "c") == known["c"])
"""


@pytest.mark.parametrize("sync", ["always", *nightly("interval", "os")])
def test_without_room(tmp_path: Path, sync: str) -> None:
    """On a full disk a store is read, trimmed and committed to, topics come and go, and freed space is reused."""
    assert run(AS_ONE, tmp_path, "48m", sync) == [
        "StorageFull send True", "True", "(1,)", "True", "['a', 'c', 'new']", "True", "True",
    ]  # fmt: skip


RETENTION = """
from mqplug_rocksmq._store.store import Store
with connect(sys.argv[2]) as mq:
    for topic in "ab":
        mq.create_topic(topic, retention=86_400 if topic == "a" else float("inf"))
    with mq.producer() as out:
        known, error = send_until_refused(out, "ab")
        others_fill_the_rest()
        soon(lambda: mq.unwrap(Store).enforce_retention(int(time.time() * 1000) + 2 * 86_400_000))
        marks = mq.watermarks("a")[0]
        print(marks.count, marks.low == marks.high, offsets(mq, "b") == known["b"])
        print(soon(lambda: out.send(b"again", topic="a")).coordinates[0] == known["a"][-1] + 1)
"""


@pytest.mark.parametrize("sync", [*nightly("always"), "os"])
def test_retention_without_room(tmp_path: Path, sync: str) -> None:
    """On a full disk retention removes expired messages, and the freed space is reused."""
    assert run(RETENTION, tmp_path, "48m", sync) == ["0 True True", "True"]


AFTERWARDS = """
child = '''
with connect() as mq:
    for topic in "ab":
        mq.create_topic(topic)
    with mq.producer() as out:
        known, error = send_until_refused(out, "ab")
        print(*known["a"], flush=True)
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
'''
said = subprocess.run([sys.executable, "-c", sys.argv[3] + child, *sys.argv[1:3]], capture_output=True, text=True)
known = [int(word) for word in said.stdout.split()]
others_fill_it()
with connect() as mq:
    print(offsets(mq, "a") == known)
    guest = '''
with connect() as mq:
    with mq.consumer("a", group="g") as reader:
        reader.ack(reader.receive(10))
        reader.commit()
    left = trim_half(mq, "a")
    mq.delete_topic("b")
    mq.create_topic("c")
    print(left == offsets(mq, "a"), sorted(mq.topics()), mq.positions("a", group="g")[0].position.coordinates)
    with mq.producer("a") as out:
        print(soon(lambda: out.send(b"again")).coordinates[0])
'''
    done = subprocess.run([sys.executable, "-c", sys.argv[3] + guest, sys.argv[1]], capture_output=True, text=True)
    print(done.stdout.strip().replace(str(known[-1] + 1), "next") + done.stderr)
"""


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_opened_without_room(tmp_path: Path, how: str) -> None:
    """A store opens on a full disk after a close and after a kill, and its owner and clients can free space."""
    said = run(AFTERWARDS, tmp_path, "48m", how, WORDS)
    assert said == ["True", "True ['a', 'c'] (1,)", "next"]


STUCK = """
from mqplug_rocksmq._engine.disk_space import database_bytes
from mqplug_rocksmq._store.store import Store
with connect() as mq:
    mq.create_topic("a")
    with mq.producer("a") as out:
        known, error = send_until_refused(out, "a")
with connect() as mq:
    pages = mq.unwrap(Store).engine.pages
    others_fill_the_rest()
    with suppress(mqplug.StorageFull):
        pages.merge(bytes(24), bytes([255] * 24))
    print(pages.stuck)
    os.truncate(disk / "other", (disk / "other").stat().st_size - (1 << 20))
    left, before = trim_half(mq, "a"), database_bytes(path)
    end = time.monotonic() + 30
    while database_bytes(path) > before * 2 // 3 and time.monotonic() < end:
        time.sleep(0.02)
    print(database_bytes(path) <= before * 2 // 3, offsets(mq, "a") == left)
    with mq.producer("a") as out:
        print(soon(lambda: out.send(b"again")).coordinates[0] == known["a"][-1] + 1)
"""


def test_room_after_a_failed_compaction(tmp_path: Path) -> None:
    """After a compaction that found the disk full, later trims still free their space."""
    assert run(STUCK, tmp_path, "24m") == ["True", "True True", "True"]


AGAIN = """
from mqplug_rocksmq._engine.disk_space import MIN_BALLAST_BYTES, ballast_bytes, wal_bytes

def stop_with_its_ballast(process):
    end = time.monotonic() + 60
    while True:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        log = wal_bytes(path)
        if ballast_bytes(path) >= log + log // 64 + MIN_BALLAST_BYTES // 2:
            return
        process.send_signal(signal.SIGCONT)
        assert time.monotonic() < end, "it never had its ballast back"
        time.sleep(0.01)

child = '''
with connect(sys.argv[2]) as mq:
    mq.create_topic("a", exist_ok=True)
    print(*offsets(mq, "a"), flush=True)
    if mq.watermarks("a")[0].count:
        print(*trim_half(mq, "a"), flush=True)
    else:
        print(flush=True)
    sys.stdin.readline()
    with mq.producer("a") as out:
        print(soon(lambda: out.send(b"x")).coordinates[0], flush=True)
        for offset in send_until_refused(out, "a")[0]["a"]:
            print(offset, flush=True)
    print("full", flush=True)
    sys.stdin.readline()
'''
known, sent = [], 0
for cycle in range(CYCLES):
    command = [sys.executable, "-c", sys.argv[3] + child, sys.argv[1], ["os", "always"][cycle % 2]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        found = [int(word) for word in process.stdout.readline().split()]
        assert found == known, (cycle, known, found)
        known = [int(word) for word in process.stdout.readline().split()]
        if cycle % 3:
            others_leave()
        print("go on", file=process.stdin, flush=True)
        while (line := process.stdout.readline().strip()) != "full":
            known.append(int(line))
            sent += 1
        stop_with_its_ballast(process)  # which it gives up for as long as it compacts
        others_fill_it()
        process.kill()
print(sent > 20 * CYCLES)
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("cycles", [2, *nightly(20)])
def test_again_and_again(tmp_path: Path, cycles: int) -> None:
    """Other programs fill the disk and the owner is killed, again and again: no stored message is lost."""
    program = AGAIN.replace("CYCLES", str(cycles))
    assert run(program, tmp_path, "24m", "", WORDS, seconds=580) == ["True"]


TAKEN = """
with connect() as mq:
    mq.create_topic("a")
    with mq.producer("a") as out:
        known, error = send_until_refused(out, "a")
    others_fill_it()
(path / "ballast").unlink()
others_fill_it()
for file in (path / "rocksdb").glob("LOG.old*"):
    file.unlink()
others_fill_it()
try:
    connect()
except mqplug.StorageFull as error:
    print("other programs have taken" in error.message, "Free the size" in error.fix, error.retryable)
others_leave()
with connect() as mq:
    print(offsets(mq, "a") == known["a"])
    print(mq.unwrap(RocksMQStatistics).ballast > 1 << 20)
    with mq.producer("a") as out:
        known, error = send_until_refused(out, "a", known=known)
    others_fill_it()
    (path / "ballast").unlink()
    (path / "ballast").touch()
    others_fill_it()
    for _ in range(100_000):
        try:
            mq.reset_group("g", "a", mqplug.EARLIEST)
        except mqplug.StorageFull as error:
            print(error.operation, "other programs have taken" in error.message)
            break
    print(offsets(mq, "a") == known["a"])
    others_leave()
    trim_half(mq, "a")
    with mq.producer("a") as out:
        print(soon(lambda: out.send(b"again")).coordinates[0] == known["a"][-1] + 1)
"""


def test_the_ballast_is_taken(tmp_path: Path) -> None:
    """If other programs take the released ballast, the error reports it; the store can be read, and resumes later."""
    said = run(TAKEN, tmp_path, "24m")
    assert said == ["True True True", "True", "True", "move a group True", "True", "True"]


INODES = """
def others_take_the_inodes():
    (disk / "files").mkdir(exist_ok=True)
    with suppress(OSError):
        for number in range(10_000):
            (disk / "files" / str(number)).touch()

def others_remove_theirs():
    for file in (disk / "files").iterdir():
        file.unlink()

def others_take_the_rest():  # and none of the reserve, which a store gives up for as long as it compacts
    reserve = path / "inodes"
    for _ in range(500):
        if held := len(os.listdir(reserve)):
            others_take_the_inodes()
            if len(os.listdir(reserve)) >= held:
                return
            others_remove_theirs()
        time.sleep(0.02)
    sys.exit("the reserve was given up all the time")

child = '''
with connect() as mq:
    mq.create_topic("a")
    with mq.producer("a") as out:
        print(*[out.send(os.urandom(100_000)).coordinates[0] for _ in range(30)], flush=True)
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
'''
said = subprocess.run([sys.executable, "-c", sys.argv[3] + child, *sys.argv[1:3]], capture_output=True, text=True)
known = [int(word) for word in said.stdout.split()]
others_take_the_inodes()
with connect() as mq:
    print(offsets(mq, "a") == known)
    left = trim_half(mq, "a")
    others_take_the_rest()
    print(offsets(mq, "a") == left)
    mq.create_topic("b")
    with mq.producer("a") as out:
        for number in range(100):  # a compaction may have freed some, and without another one none is needed
            if number % 10 == 9:
                left = trim_half(mq, "a")
            others_take_the_rest()
            try:
                left.append(out.send(b"x").coordinates[0])
            except mqplug.StorageFull as error:
                print("inodes" in error.message, "df -i" in error.fix)
                break
others_take_the_inodes()
with connect() as mq:
    mq.delete_topic("b")
    print(offsets(mq, "a") == left)
    others_remove_theirs()
    with mq.producer("a") as out:
        print(soon(lambda: out.send(b"again")).coordinates[0] == left[-1] + 1)
others_take_the_inodes()
for file in (path / "inodes").iterdir():
    file.unlink()
others_take_the_inodes()
for where in path, disk / "new":
    try:
        mqplug.connect("rocksmq", path=str(where))
    except mqplug.StorageFull as error:
        print("inodes" in error.message, "df -i" in error.fix)
"""


@pytest.mark.parametrize("how", ["killed", *nightly("closed")])
def test_without_inodes(tmp_path: Path, how: str) -> None:
    """If the file system has no inodes left, a store is opened, read and trimmed, and errors name inodes."""
    said = run(INODES, tmp_path, "48m,nr_inodes=120", how, WORDS)
    assert said == ["True", "True", "True True", "True", "True", "True True", "True True"]


def run(code: str, tmp_path: Path, size: str, *arguments: str, seconds: float = 100) -> list[str]:
    """Run code on a small disk, and return its output lines."""
    script = 'mount -t tmpfs -o size="$5" tmpfs "$1"; "$2" -c "$3" "$1" "$4" "$6"'
    given = (*arguments, "", "")
    said = in_a_namespace(script, tmp_path, sys.executable, WORDS + code, given[0], size, given[1], seconds=seconds)
    return said.splitlines()


# the ballast -------------------------------------------------------------------------------------------------


SMALLEST = 256 << 10
"""The bytes of the smallest ballast."""


def test_its_size(path: Path, open_store: OpenStore) -> None:
    """The ballast is allocated space: small for a small store, as large as the stored data, and up to its setting."""
    store = open_store(sync="os", ballast_max_bytes=8 << 20)
    assert SMALLEST <= taken(path) <= 2 * SMALLEST
    log = new_log(store)
    for _ in range(4):
        put(store, log, os.urandom(1_000_000))
    assert 3_000_000 <= taken(path) <= 7_000_000
    for _ in range(8):
        put(store, log, os.urandom(1_000_000))
    assert 8 << 20 <= taken(path) == statistics(store).ballast < 9 << 20
    store.trim(log, 12)
    store.enforce_retention()
    store.engine.pages.flush()  # the write-ahead log counts as well
    store.engine.tend_room()
    assert taken(path) < 4 << 20


def test_none(path: Path, open_store: OpenStore) -> None:
    """A store without a ballast works as before."""
    store = open_store(sync="os", ballast_max_bytes=0)
    put(store, new_log(store), b"x")
    assert taken(path) == 0


def test_made_later(path: Path, open_store: OpenStore) -> None:
    """A store without a ballast, an older one or a copy, gets it when it is opened."""
    open_store().close(10)
    (path / BALLAST).unlink()
    store = open_store()
    put(store, new_log(store), b"x")
    assert taken(path) >= SMALLEST


def test_a_hole_is_no_room(path: Path, open_store: OpenStore) -> None:
    """A ballast that a copy turned into a hole is allocated again."""
    open_store().close(10)
    (path / BALLAST).write_bytes(b"")
    os.truncate(path / BALLAST, 1 << 20)
    store = open_store()
    put(store, new_log(store), b"x")
    assert taken(path) >= SMALLEST


def test_not_in_backups(path: Path, tmp_path: Path) -> None:
    """A backup has no ballast; the statistics show it."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        assert mq.unwrap(RocksMQStatistics).ballast == taken(path)
        back_up_store(native(mq), tmp_path / "backup")
    shown = CliRunner().invoke(click.Group("rocksmq", mqplug_rocksmq.mqplug_commands()), ["stats", str(path)])
    assert "reserved for a full disk" in shown.output
    assert taken(tmp_path / "backup") == 0


def taken(path: Path) -> int:
    """Return the space of a store's ballast on disk."""
    ballast = path / BALLAST
    return ballast.stat().st_blocks * 512 if ballast.exists() else 0


def test_each_error_is_its_own(path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation that a full disk refuses raises its own error, not the error of the first one to find it full."""
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic("t")
        engine = native(mq).engine
        with mq.producer("t") as out, monkeypatch.context() as full:
            last = out.send(b"x")
            full.setattr(engine.disk_space, "to_send", lambda: False)
            full.setattr(engine.disk_space, "to_open", lambda: False)
            full.setattr(engine.pages, "write", _no_room)
            end = {0: mqplug.Position(last.log, (last.coordinates[0] + 1,))}
            for operation, call in {
                "send": lambda: out.send(b"y"),
                "trim": lambda: mq.trim("t", end),
                "delete topic": lambda: mq.delete_topic("t"),
                "create topic": lambda: mq.create_topic("new"),
                "move a group": lambda: mq.reset_group("g", "t", mqplug.LATEST),
            }.items():
                with pytest.raises(StorageFull) as refused:
                    call()
                assert (refused.value.operation, refused.value.retryable) == (operation, True)
                assert "send" not in f"{refused.value.message} {refused.value.fix}"
        assert values(native(mq), 0) == [b"x"]


def _no_room(_: object) -> None:
    raise StorageFull("the disk of the store is full")
