"""Paths that are no store, damaged or newer stores, and missing permissions: typed errors, and nothing is changed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from refused_openings import QUICK, connect, untouched
from rocksmq_stores import OpenStore, files_left, in_a_namespace, python
from store_seam import IDENTITY, STORE_FORMAT

import mqplug
from mqplug import AccessDenied, AlreadyOpen, ConfigError, ConnectError, Corrupt, Error, PluginError, StorageFull
from mqplug_rocksmq._engine.errors import translate
from mqplug_rocksmq._format.keys import STORE, json_value
from mqplug_rocksmq._store.staging import StagingDirectory

# not a store ---------------------------------------------------------------------------------------------------


def test_a_file(tmp_path: Path) -> None:
    """A path that is a file, or lies below a file, is refused."""
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "store"):
        with untouched(tmp_path), pytest.raises(ConfigError, match="file is a file; a store is a directory"):
            connect(path)


def test_a_link_to_nothing(tmp_path: Path) -> None:
    """A link to nothing, or in a circle, is refused, and nothing is created at its target."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for path in (tmp_path / "link", tmp_path / "circle"):
        with untouched(tmp_path), pytest.raises(ConfigError, match="is a link to nothing"):
            connect(path)


def test_a_pipe(tmp_path: Path) -> None:
    """A path that is neither a file nor a directory is refused without opening it, which might wait forever."""
    os.mkfifo(tmp_path / "pipe")
    with untouched(tmp_path), pytest.raises(ConfigError, match="a store is a directory"):
        connect(tmp_path / "pipe")


def test_a_directory_of_others(tmp_path: Path) -> None:
    """A directory with other files is refused, and nothing is written into it."""
    (tmp_path / "photos").mkdir()
    with (
        untouched(tmp_path),
        pytest.raises(ConfigError, match="is not a store and holds 1 other entries, such as 'photos'"),
    ):
        connect(tmp_path)


def test_an_empty_directory(tmp_path: Path) -> None:
    """An empty directory becomes a store."""
    connect(tmp_path).close()
    connect(tmp_path, create=False).close()


def test_nothing_is_made(tmp_path: Path) -> None:
    """With ``create=False`` a missing store is an error, and is not created."""
    with pytest.raises(ConfigError, match="there is no store at"):
        connect(tmp_path / "typo", create=False)
    with pytest.raises(ConfigError, match="there is no store at"):
        mqplug.connect(f"rocksmq://{tmp_path}/typo?create=false")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("", "is empty"), ("a\0b", "zero byte"), ("~nobody-of-this-name/store", "no such user exists")],
)
def test_a_path_that_cannot_be(path: str, complaint: str) -> None:
    """A path that no directory can have is an invalid setting."""
    with pytest.raises(ConfigError, match=complaint):
        connect(path)


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    """A path that the file system refuses is a ``ConnectError`` with the system's reason."""
    with untouched(tmp_path), pytest.raises(ConnectError, match="File name too long"):
        connect(tmp_path / ("x" * 300))


# damaged and newer stores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["file", "database"])
def test_a_newer_format(path: Path, open_store: OpenStore, where: str) -> None:
    """A store of a newer format is refused, with what to update. If its file shows the format, nothing is changed."""
    store = open_store()
    newer = {"format": STORE_FORMAT + 1, "id": store.id}
    if where == "database":
        store.engine.change(lambda changes: changes.put(STORE, json_value(newer)), 10)
    store.close(10)
    if where == "file":
        (path / IDENTITY).write_text(json.dumps(newer))
    with ExitStack() as unchanged:
        if where == "file":
            unchanged.enter_context(untouched(path))
        with pytest.raises(PluginError, match=rf"format {STORE_FORMAT + 1}.*Update mqplug-rocksmq"):
            connect(path)


@pytest.mark.parametrize(
    "said",
    [
        b"\xff",
        b"",
        b"[]",
        b'{"id": "x"}',
        b'{"id": "x", "format": "new"}',
        b'{"id": "x", "format": 1e400}',
        b"[" * 99999,
    ],
)
def test_a_damaged_name(closed: Path, said: bytes) -> None:
    """A store whose own file is invalid is refused before anything is changed."""
    (closed / IDENTITY).write_bytes(said)
    with untouched(closed), pytest.raises(Corrupt, match=IDENTITY):
        connect(closed)


@pytest.mark.parametrize("left", ["nothing", "a file", "an empty directory"])
def test_a_lost_database(closed: Path, left: str) -> None:
    """A store without its database is refused, and RocksDB does not create an empty one."""
    shutil.rmtree(closed / "rocksdb")
    if left == "a file":
        (closed / "rocksdb").write_text("x")
    elif left == "an empty directory":
        (closed / "rocksdb").mkdir()
    with untouched(closed), pytest.raises(Corrupt, match=r"has lost its database.*mqplug rocksmq repair"):
        connect(closed)


@pytest.mark.parametrize("name", [IDENTITY, "owner", "witness"])
def test_a_directory_in_place_of_a_file(closed: Path, name: str) -> None:
    """A directory in place of one of a store's files is named in the error, and the messages are unchanged."""
    (closed / name).unlink()
    (closed / name).mkdir()
    with (
        untouched(closed / "rocksdb"),
        pytest.raises(ConfigError, match=f"{name} is a directory; expected a regular file of the store"),
    ):
        connect(closed)


# permissions ---------------------------------------------------------------------------------------------------


TRY = """
import sys, mqplug
try:
    mqplug.connect("rocksmq", path=sys.argv[1], timeout=60)
except mqplug.Error as error:
    print(type(error).__name__, error)
"""


def test_a_read_only_disk(closed: Path) -> None:
    """A store on a read-only disk is ``AccessDenied``."""
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; "$2" -c "$3" "$1"'
    with untouched(closed):
        assert in_a_namespace(script, closed, sys.executable, TRY).startswith("AccessDenied")


def test_a_new_store_on_a_read_only_disk(tmp_path: Path) -> None:
    """A store cannot be created on a read-only disk."""
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; "$2" -c "$3" "$1/new"'
    assert in_a_namespace(script, tmp_path, sys.executable, TRY).startswith("AccessDenied")


FILL = """
import os, sys
from pathlib import Path
import mqplug
path = Path(sys.argv[1])
with mqplug.connect("rocksmq", path=str(path / "store")) as mq:
    mq.create_topic("t")
    with mq.producer("t") as out:
        out.send(b"kept")
with open(path / "other", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
def files():
    return sorted((str(each), each.lstat().st_size, each.lstat().st_mtime_ns) for each in path.rglob("*")
                  if each.name != "owner")
before = files()
try:
    mqplug.connect("rocksmq", path=str(path / "new"))
except mqplug.Error as error:
    print(type(error).__name__, "Free some space" in str(error), files() == before)
with mqplug.connect("rocksmq", path=str(path / "store")) as mq:
    print([message.value for message in mq.read("t")])
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """On a full disk no store is created and nothing is changed; an existing store opens."""
    script = 'mount -t tmpfs -o size=16m tmpfs "$1"; "$2" -c "$3" "$1"'
    said = in_a_namespace(script, tmp_path, sys.executable, FILL).splitlines()
    assert said == ["StorageFull True True", "[b'kept']"]


def open_files() -> int:
    """Return the number of open files of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_too_few_files(path: Path) -> None:
    """If this process has no descriptors left, the error explains it and gives a fix; repeated attempts leak none."""
    connect(path).close()
    before = open_files()
    for _ in range(5):
        with files_left(3), pytest.raises(Error, match="Too many open files"):
            connect(path)
    assert open_files() == before
    connect(path).close()


TOO_FEW_LATER = """
import resource

usual = resource.getrlimit(resource.RLIMIT_NOFILE)

def use(mq):
    mq.create_topic("a", exist_ok=True)
    for mode in "ordered", "shared":
        with mq.producer("a") as out, mq.consumer("a", group=mode, mode=mode, missing="next") as reader:
            out.send(b"x")
            reader.ack(reader.receive(5))
    mq.trim("a", {0: mq.watermarks("a")[0].high})
    mq.reset_group("shared", "a", mqplug.EARLIEST)

def connected():
    return mqplug.connect("rocksmq", path=str(path), sync="os", timeout=20)

with connected() as mq:
    use(mq)
for more in range(50):
    mq = connected() if more % 2 else None
    used = len(os.listdir("/proc/self/fd")) - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + (more // 2 if mq else more + 4), usual[1]))
    try:
        mq = mq or connected()
        use(mq)
    except mqplug.Error as error:
        if "ulimit -n" not in f"{error.fix} {error.__cause__}":
            raise
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        if mq is not None:
            mq.close()
print("served")
"""


@pytest.mark.night
def test_too_few_files_for_whatever_is_next(path: Path) -> None:
    """With any number of free descriptors, each call works or reports their lack; no bare OSError is raised."""
    with python(TOO_FEW_LATER, path) as process:
        assert process.communicate(timeout=100)[0].strip() == "served"


def test_retention_goes_on_after_too_many_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention that ran out of descriptors continues once some are free again."""
    swept, sweep = threading.Semaphore(0), StagingDirectory.sweep

    def noticed(staging: StagingDirectory) -> None:
        swept.release()
        sweep(staging)

    with connect(path, retention_interval=0.05):
        monkeypatch.setattr(StagingDirectory, "sweep", noticed)
        with files_left(0):
            assert swept.acquire(timeout=20)
            assert swept.acquire(timeout=20)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_no_locks(path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A file system that does not lock files is reported, instead of another process as the owner.

    The system call fails as it does on NFS without a lock service, which no test can mount.
    """

    def refuse(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    began = time.monotonic()
    with pytest.raises(ConnectError, match=r"does not lock files.*NFS") as refused:
        connect(path)
    assert time.monotonic() - began < QUICK
    assert not isinstance(refused.value, AlreadyOpen)


NOBODY = """
import os, sys, tempfile, mqplug
with tempfile.TemporaryDirectory() as folder, mqplug.connect("rocksmq", path=folder) as mq:
    mq.topics()  # all that is imported later would lie out of reach
if os.getuid() == 0:
    os.seteuid(65534)
try:
    mqplug.connect("rocksmq", path=sys.argv[1], timeout=60)
except mqplug.Error as error:
    print(type(error).__name__, "Check" in str(error), flush=True)
os.seteuid(os.getuid())
"""


@pytest.mark.parametrize("mode", [0o000, 0o500, 0o400])
def test_a_directory_of_another(mode: int) -> None:
    """A store that this user may not read, enter or write is ``AccessDenied``, and so is a new one in that place."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        store = Path(folder, "store")
        connect(store).close()
        with untouched(store):
            for path in (store, store / "new"):
                store.chmod(mode)
                try:
                    with python(NOBODY, path) as process:
                        assert process.communicate(timeout=100)[0].strip() == "AccessDenied True"
                finally:
                    store.chmod(0o700)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("IO error: While lock file: /x/LOCK: Resource temporarily unavailable", AlreadyOpen),
        (
            "IO error: lock hold by current process, acquire time 1 acquiring thread 2: /x/LOCK: No locks available",
            AlreadyOpen,
        ),
        ("IO error: While lock file: /x/LOCK: No locks available", ConnectError),
        ("IO error: While open a file for lock: /x/LOCK: Too many open files", Error),
        ("IO error: While pread offset 0 len 9: /mnt/BLOCKS/Corruption/checksum/1.sst: Input/output error", Error),
        ("IO error: No space left on device: While appending to file: /x/1.log: No space left on device", StorageFull),
        ("IO error: While open a file for appending: /x/1.log: Read-only file system", AccessDenied),
        ("Corruption: block checksum mismatch: stored = 1, computed = 2 in /x/1.sst offset 0 size 9", Corrupt),
    ],
)
def test_native_errors(text: str, kind: type[Error]) -> None:
    """RocksDB's texts become the right errors, whatever the store's path contains."""
    assert type(translate(Exception(text))) is kind
