"""What is no store, who may not open it, and what cannot be set: typed errors, before anything is touched."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import attrs
import pytest
from conftest import OpenStore
from rocksmq_words import in_a_namespace, python

import mqplug
from mqplug import AccessDenied, AlreadyOpen, ConfigError, ConnectError, Corrupt, Error, PluginError, StorageFull
from mqplug_rocksmq import RocksMQSettings
from mqplug_rocksmq._frames import PROTOCOL, pack
from mqplug_rocksmq._layout import STORE, json_value
from mqplug_rocksmq._native_errors import translate
from mqplug_rocksmq._ownership import owner_of
from mqplug_rocksmq._site import IDENTITY

QUICK = 4.0  # seconds: less than the patience with an owner that is just ending


def connect(path: Path | str, **settings: Any) -> mqplug.Client:
    """Connect, and give up soon."""
    return mqplug.connect("rocksmq", path=str(path), timeout=2, **settings)


def files(path: Path) -> list[tuple[str, int, int]]:
    """Return what lies in a directory, how large it is, and when it was changed."""
    found = [(each, each.lstat()) for each in path.rglob("*")]
    return sorted((str(each.relative_to(path)), about.st_size, about.st_mtime_ns) for each, about in found)


@contextmanager
def untouched(path: Path) -> Iterator[None]:
    """Nothing below a directory is made, removed or changed."""
    before = files(path)
    yield
    assert files(path) == before


@pytest.fixture
def closed(path: Path) -> Path:
    """A closed store with a message."""
    with connect(path) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send(b"a")
    return path


# what is no store ----------------------------------------------------------------------------------------


def test_a_file(tmp_path: Path) -> None:
    """A path that is a file, or lies below one, is refused."""
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "store"):
        with untouched(tmp_path), pytest.raises(ConfigError, match="file is a file, and a store is a directory"):
            connect(path)


def test_a_link_to_nothing(tmp_path: Path) -> None:
    """A link that leads nowhere, or in a circle, is refused, and nothing is made where it points."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for path in (tmp_path / "link", tmp_path / "circle"):
        with untouched(tmp_path), pytest.raises(ConfigError, match="is a link to nothing"):
            connect(path)


def test_a_pipe(tmp_path: Path) -> None:
    """What is neither a file nor a directory is refused, and not opened, which could wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    with untouched(tmp_path), pytest.raises(ConfigError, match="a store is a directory"):
        connect(tmp_path / "pipe")


def test_a_directory_of_others(tmp_path: Path) -> None:
    """A directory that holds other things is refused, and nothing is written into it."""
    (tmp_path / "photos").mkdir()
    with untouched(tmp_path), pytest.raises(ConfigError, match="no store, but 1 other things, such as 'photos'"):
        connect(tmp_path)


def test_an_empty_directory(tmp_path: Path) -> None:
    """An empty directory becomes a store."""
    connect(tmp_path).close()
    connect(tmp_path, create=False).close()


def test_nothing_is_made(tmp_path: Path) -> None:
    """With ``create=False`` a store that is not there is an error, and is not made."""
    with pytest.raises(ConfigError, match="there is no store at"):
        connect(tmp_path / "typo", create=False)
    with pytest.raises(ConfigError, match="there is no store at"):
        mqplug.connect(f"rocksmq://{tmp_path}/typo?create=false")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("", "is empty"), ("a\0b", "zero byte"), ("~nobody-of-this-name/store", "there is no such user")],
)
def test_a_path_that_cannot_be(path: str, complaint: str) -> None:
    """A path that no directory can have is a wrong setting."""
    with pytest.raises(ConfigError, match=complaint):
        connect(path)


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    """A path that the file system does not take is ``ConnectError``, with what the system says."""
    with untouched(tmp_path), pytest.raises(ConnectError, match="File name too long"):
        connect(tmp_path / ("x" * 300))


# what is a damaged or a newer store ----------------------------------------------------------------------


@pytest.mark.parametrize("where", ["file", "database"])
def test_a_newer_format(path: Path, open_store: OpenStore, where: str) -> None:
    """A store of a newer format is refused with what to update; where its file says so, it is not even touched."""
    store = open_store()
    newer = {"format": 2, "id": store.id}
    if where == "database":
        store._engine.change(lambda changes: changes.put(STORE, json_value(newer)), 10)
    store.close(10)
    if where == "file":
        (path / IDENTITY).write_text(json.dumps(newer))
    with ExitStack() as unchanged:
        if where == "file":
            unchanged.enter_context(untouched(path))
        with pytest.raises(PluginError, match=r"format 2.*Update mqplug-rocksmq"):
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
    """A store whose own file makes no sense is refused before anything is touched."""
    (closed / IDENTITY).write_bytes(said)
    with untouched(closed), pytest.raises(Corrupt, match=IDENTITY):
        connect(closed)


@pytest.mark.parametrize("left", ["nothing", "a file", "an empty directory"])
def test_a_lost_database(closed: Path, left: str) -> None:
    """A store whose database is gone is refused, and RocksDB makes no empty one in its place."""
    shutil.rmtree(closed / "rocksdb")
    if left == "a file":
        (closed / "rocksdb").write_text("x")
    elif left == "an empty directory":
        (closed / "rocksdb").mkdir()
    with untouched(closed), pytest.raises(Corrupt, match=r"has lost its database.*mqplug rocksmq repair"):
        connect(closed)


@pytest.mark.parametrize("name", [IDENTITY, "owner", "witness"])
def test_a_directory_in_place_of_a_file(closed: Path, name: str) -> None:
    """Where one of a store's files is a directory, that is named, and no message is touched."""
    (closed / name).unlink()
    (closed / name).mkdir()
    with untouched(closed / "rocksdb"), pytest.raises(ConnectError, match=f"Is a directory: .*{name}"):
        connect(closed)


# who may not open it -------------------------------------------------------------------------------------

TRY = """
import sys, mqplug
try:
    mqplug.connect("rocksmq", path=sys.argv[1], timeout=2)
except mqplug.Error as error:
    print(type(error).__name__, error)
"""


def test_a_read_only_disk(closed: Path) -> None:
    """A store on a disk that cannot be written is ``AccessDenied``."""
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; "$2" -c "$3" "$1"'
    with untouched(closed):
        assert in_a_namespace(script, closed, sys.executable, TRY).startswith("AccessDenied")


def test_a_new_store_on_a_read_only_disk(tmp_path: Path) -> None:
    """A store cannot be made on a disk that cannot be written either."""
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
for name in ("store", "new"):
    try:
        mqplug.connect("rocksmq", path=str(path / name))
    except mqplug.Error as error:
        print(type(error).__name__, "Free some space" in str(error), files() == before)
(path / "other").unlink()
with mqplug.connect("rocksmq", path=str(path / "store")) as mq:
    print([message.value for message in mq.read("t")])
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """On a full disk a store neither opens nor is made, nothing of it changes, and with room it opens as it was."""
    script = 'mount -t tmpfs -o size=16m tmpfs "$1"; "$2" -c "$3" "$1"'
    said = in_a_namespace(script, tmp_path, sys.executable, FILL).splitlines()
    assert said == ["StorageFull True True", "StorageFull True True", "[b'kept']"]


def open_files() -> int:
    """How many files this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_too_few_files(path: Path) -> None:
    """Where a process may open no more files that is said, with what to do; trying again and again leaks none."""
    connect(path).close()
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = open_files()
    for _ in range(5):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + 3, usual[1]))
        try:
            with pytest.raises(Error, match="Too many open files"):
                connect(path)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    assert open_files() == before
    connect(path).close()


NOBODY = """
import os, sys, tempfile, mqplug
with tempfile.TemporaryDirectory() as folder, mqplug.connect("rocksmq", path=folder) as mq:
    mq.topics()  # all that is imported later would lie out of reach
if os.getuid() == 0:
    os.seteuid(65534)
try:
    mqplug.connect("rocksmq", path=sys.argv[1], timeout=2)
except mqplug.Error as error:
    print(type(error).__name__, "Check" in str(error), flush=True)
os.seteuid(os.getuid())
"""


@pytest.mark.parametrize("mode", [0o000, 0o500, 0o400])
def test_a_directory_of_another(mode: int) -> None:
    """A store that this user may not read, enter or write to is ``AccessDenied``, and so is a new one there."""
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
                        assert process.communicate(timeout=30)[0].strip() == "AccessDenied True"
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
        ("IO error: While open a file for lock: /x/LOCK: Too many open files", Error),
        ("IO error: While pread offset 0 len 9: /mnt/BLOCKS/Corruption/checksum/1.sst: Input/output error", Error),
        ("IO error: No space left on device: While appending to file: /x/1.log: No space left on device", StorageFull),
        ("IO error: While open a file for appending: /x/1.log: Read-only file system", AccessDenied),
        ("Corruption: block checksum mismatch: stored = 1, computed = 2 in /x/1.sst offset 0 size 9", Corrupt),
    ],
)
def test_native_errors(text: str, kind: type[Error]) -> None:
    """What RocksDB says in words is the right error, whatever the store's path is made of."""
    assert type(translate(Exception(text))) is kind


# who else answers ----------------------------------------------------------------------------------------


@contextmanager
def held(store: Path, owner: object) -> Iterator[None]:
    """Somebody holds a store, and its file says this about him."""
    with (store / "owner").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(owner if isinstance(owner, str) else json.dumps(owner))
        file.flush()
        yield


@contextmanager
def answering(store: Path, talk: Callable[[socket.socket], None]) -> Iterator[None]:
    """Somebody holds a store, and something else answers at its socket."""
    address = Path(os.environ["XDG_RUNTIME_DIR"], "stranger.sock")
    with socket.socket(socket.AF_UNIX) as listener, held(store, {"pid": 1, "socket": str(address)}):
        listener.bind(str(address))
        listener.listen()
        thread = threading.Thread(target=_answer, args=(listener, talk))
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            address.unlink()


def _answer(listener: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                talk(connection)


def _says(answer: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.recv(1)  # until the other side has had enough

    return talk


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"MQF1" + b"\xff" * 8,
        b"MQF1\x02\0\0\0\0\0\0\0[]",
        pack({"protocol": PROTOCOL}),
        pack({"protocol": PROTOCOL, "store": 5}),
    ],
)
def test_a_socket_that_is_not_ours(closed: Path, answer: bytes) -> None:
    """Where something else answers at the owner's socket, that is said at once, with the file that names it."""
    began = monotonic()
    with (
        answering(closed, _says(answer)),
        untouched(closed),
        pytest.raises(ConnectError, match="owner names is no owner of a store") as refused,
    ):
        mqplug.connect("rocksmq", path=str(closed), timeout=30)
    assert not refused.value.retryable
    assert monotonic() - began < QUICK


def test_a_socket_that_says_nothing(closed: Path) -> None:
    """Where nobody answers, which an owner that stands still does not either, the timeout ends it."""
    ended = threading.Event()
    with answering(closed, lambda _: ended.wait(30) and None), untouched(closed):
        with pytest.raises(mqplug.Timeout, match="did not answer"):
            connect(closed)
        ended.set()


def test_a_socket_that_hangs_up(closed: Path) -> None:
    """Where everybody is hung up on, as by an owner that is just ending, it is tried until the timeout."""
    with answering(closed, lambda _: None), untouched(closed), pytest.raises(AlreadyOpen, match="owned by process 1"):
        connect(closed)


def test_an_owner_of_an_older_version(closed: Path) -> None:
    """An owner that speaks an older protocol is named, with both versions, at once."""
    hello = pack({"id": "x", "protocol": 1, "pid": 1, "version": "0.0.1"})
    began = monotonic()
    with (
        answering(closed, _says(hello)),
        untouched(closed),
        pytest.raises(AlreadyOpen, match=r"process 1 owns the store .*0\.0\.1.*protocol 1"),
    ):
        mqplug.connect("rocksmq", path=str(closed), timeout=30)
    assert monotonic() - began < QUICK


@pytest.mark.parametrize(
    "said",
    [
        "",
        "[]",
        "[" * 9999,
        '{"pid": 1e999, "socket": "x"}',
        {"pid": 1, "socket": 5},
        {"pid": 1, "socket": None},
        {"pid": 1, "socket": "a\0b"},
        {"pid": 1, "socket": "\udc00"},
        {"pid": 1, "socket": "x" * 500},
        {"pid": 1, "socket": "/nowhere/at/all"},
        {"pid": 1, "socket": "/"},
    ],
)
def test_an_owner_that_cannot_be_reached(closed: Path, said: object) -> None:
    """Whatever the file of a live owner says, who cannot reach it gets ``AlreadyOpen`` when the timeout is over."""
    with held(closed, said), untouched(closed), pytest.raises(AlreadyOpen, match="is owned by"):
        mqplug.connect("rocksmq", path=str(closed), timeout=0.3)


@pytest.mark.parametrize("said", ["", "[]", '{"pid": 1, "socket": 5}', '{"pid": 1, "socket": "/nowhere"}'])
def test_a_dead_owner(closed: Path, said: str) -> None:
    """Whatever a dead owner left in its file, the store opens, and others can reach its new owner."""
    (closed / "owner").write_text(said)
    with connect(closed):
        owner = owner_of(closed)
        assert owner is not None
        assert owner.pid == os.getpid()
        assert owner.socket is not None


def test_a_stale_socket(closed: Path) -> None:
    """A socket that a dead owner left behind is replaced, and works."""
    with connect(closed):
        owner = owner_of(closed)
    assert owner is not None
    assert owner.socket is not None
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(owner.socket)
    with connect(closed), python("mqplug.connect('rocksmq', path=str(path)).topics()", closed) as guest:
        assert guest.wait(30) == 0


# settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"disk_max_bytes": 1000}, "disk_max_bytes"),
        ({"disk_max_bytes": 1 << 70}, "disk_max_bytes"),
        ({"memory_max_bytes": 1000}, "memory_max_bytes"),
        ({"memory_max_bytes": 1 << 70}, "memory_max_bytes"),
        ({"message_max_bytes": 0}, "message_max_bytes"),
        ({"message_max_bytes": 1 << 30}, "message_max_bytes"),
        ({"disk_max_bytes": 64 << 20, "message_max_bytes": 32 << 20}, "an eighth of disk_max_bytes"),
        ({"memory_max_bytes": 64 << 20, "message_max_bytes": 9 << 20}, "an eighth of memory_max_bytes"),
        ({"sync": "never"}, "sync"),
        ({"sync": "interval", "sync_interval": 0}, "sync_interval"),
        ({"sync": "interval", "sync_interval": float("nan")}, "sync_interval"),
        ({"sync_interval": 1.0}, r"sync_interval.*sync is always.*Say sync=interval"),
        ({"sync": "os", "sync_interval": 1.0}, "sync is os"),
        ({"retention_interval": -1}, "retention_interval"),
        ({"retention_interval": float("inf")}, "retention_interval"),
        ({"create": "perhaps"}, "create"),
        ({"memory": 1}, "memory"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, settings: dict[str, Any], complaint: str) -> None:
    """Settings that are impossible, or contradict each other, are refused before anything is made."""
    with untouched(tmp_path), pytest.raises(ConfigError, match=complaint):
        connect(tmp_path / "new", **settings)


@pytest.mark.parametrize(
    "query",
    [
        "sync=never",
        "sync_interval=often&sync=interval",
        "retention_interval=1h",
        "message_max_bytes=1.5",
        "disk_max_bytes=lots",
        "memory_max_bytes=",
        "create=perhaps",
        "pth=x",
    ],
)
def test_urls_that_cannot_be(closed: Path, query: str) -> None:
    """A setting in a URL that is no such thing is named, before the store is touched."""
    with untouched(closed), pytest.raises(ConfigError, match=f"rocksmq.{query.partition('=')[0]}"):
        mqplug.connect(f"rocksmq://{closed}?{query}")


def test_settings_that_differ(path: Path) -> None:
    """Two clients of one process cannot open one store with different settings; the first goes on."""
    with connect(path) as first:
        with pytest.raises(ConfigError, match="differs"):
            connect(path, disk_max_bytes=64 << 20)
        assert first.topics() == []


def test_settings_of_a_guest(path: Path) -> None:
    """A guest may have other settings than the owner: they hold when it owns the store itself."""
    code = 'mq = mqplug.connect("rocksmq", path=str(path), disk_max_bytes=64 << 20); print(mq.topics())'
    with connect(path) as mq:
        mq.create_topic("orders")
        with python(code, path) as guest:
            assert guest.communicate(timeout=30)[0].strip() == "['orders']"


def test_it_is_still_the_store(closed: Path) -> None:
    """After all that was refused a store is what it was."""
    for settings in ({"disk_max_bytes": 1}, {"sync_interval": 1.0}):
        with suppress(ConfigError):
            connect(closed, **settings)
    with held(closed, ""), suppress(AlreadyOpen):
        mqplug.connect("rocksmq", path=str(closed), timeout=0.1)
    with connect(closed) as mq:
        assert [message.value for message in mq.read("orders")] == [b"a"]


def test_each_setting_is_documented_with_its_cost() -> None:
    """The page on operations has a row for each setting but the path, in the order of the class, with its default."""
    page = (Path(__file__).parents[1] / "docs" / "operations.md").read_text()
    rows = [row.split("|")[1:4] for row in page.partition("\n## Statistics")[0].splitlines() if row.startswith("| `")]
    assert [row[0].strip(" `") for row in rows] == [each.name for each in attrs.fields(RocksMQSettings)][1:]
    assert all(default.strip() and len(cost) > 20 for _, default, cost in rows)
