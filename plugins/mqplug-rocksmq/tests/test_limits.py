"""What a store cannot be, and what it may not exceed: typed errors before anything is touched, and caps that hold."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenStore
from rocksmq_words import eventually, extent, line, new_log, put, python, values

import mqplug
from mqplug import AccessDenied, AlreadyOpen, ConfigError, ConnectError, Corrupt, PluginError, StorageFull
from mqplug_rocksmq._layout import STORE, json_value
from mqplug_rocksmq._site import IDENTITY
from mqplug_rocksmq._store import Columns
from mqplug_rocksmq._tuning import Tuning


def connect(path: Path, **settings: Any) -> mqplug.Client:
    """Connect, and give up soon."""
    return mqplug.connect("rocksmq", path=str(path), timeout=2, **settings)


def files(path: Path) -> list[tuple[str, int]]:
    """Return what lies in a directory, and when it was changed."""
    return sorted((str(each.relative_to(path)), each.lstat().st_mtime_ns) for each in path.rglob("*"))


# what is no store ----------------------------------------------------------------------------------------


def test_a_file(tmp_path: Path) -> None:
    """A path that is a file is refused."""
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ConfigError, match="is a file"):
        connect(file)
    assert file.read_text() == "mine"


def test_a_directory_of_others(tmp_path: Path) -> None:
    """A directory that holds other things is refused, and nothing is written into it."""
    (tmp_path / "photos").mkdir()
    before = files(tmp_path)
    with pytest.raises(ConfigError, match="holds no store, but 1 other things, such as 'photos'"):
        connect(tmp_path)
    assert files(tmp_path) == before


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
    before = files(path)
    with pytest.raises(PluginError, match=r"format 2.*Update mqplug-rocksmq"):
        connect(path)
    if where == "file":
        assert files(path) == before


def test_a_damaged_name(path: Path, open_store: OpenStore) -> None:
    """A store whose own file is damaged is refused before anything is touched."""
    open_store().close()
    (path / IDENTITY).write_bytes(b"\xff")
    before = files(path)
    with pytest.raises(Corrupt, match=IDENTITY):
        connect(path)
    assert files(path) == before


# who may not open it -------------------------------------------------------------------------------------


def in_a_namespace(script: str, *arguments: object) -> str:
    """Run a shell script as root of a user namespace of its own, where it can mount; return what it prints."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-euc", script, "sh", *map(str, arguments)]
    if subprocess.run([*command[:4], "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let users make namespaces of their own")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


TRY = """
import sys, mqplug
try:
    mqplug.connect("rocksmq", path=sys.argv[1], timeout=2)
except mqplug.Error as error:
    print(type(error).__name__, error)
"""


def test_a_read_only_disk(path: Path, open_store: OpenStore) -> None:
    """A store on a disk that cannot be written is ``AccessDenied``."""
    open_store().close()
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; "$2" -c "$3" "$1"'
    assert in_a_namespace(script, path, sys.executable, TRY).startswith("AccessDenied")


def test_a_new_store_on_a_read_only_disk(tmp_path: Path) -> None:
    """A store cannot be made on a disk that cannot be written either."""
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; "$2" -c "$3" "$1/new"'
    assert in_a_namespace(script, tmp_path, sys.executable, TRY).startswith("AccessDenied")


@pytest.mark.skipif(os.getuid() == 0, reason="root may do anything")
def test_a_directory_of_another(tmp_path: Path) -> None:
    """A directory in which this user may not write is ``AccessDenied``."""
    tmp_path.chmod(0o500)
    with pytest.raises(AccessDenied):
        connect(tmp_path / "new")


HOLD = """
store = open_store(path, StoreSettings())
print(os.getpid(), flush=True)
threading.Event().wait()
"""


def test_an_owner_of_another_version(path: Path, tmp_path: Path) -> None:
    """An owner that speaks an older protocol is named, with both versions."""
    with socket.socket(socket.AF_UNIX) as listener, python(HOLD, path) as holder:
        assert line(holder)
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        old = threading.Thread(target=_speak_an_older_protocol, args=(listener,))
        old.start()
        _redirect(path, tmp_path / "s")
        with pytest.raises(AlreadyOpen, match=r"owns the store .*0\.0\.1.*protocol 1"):
            connect(path)
        listener.shutdown(socket.SHUT_RDWR)
        old.join(10)


def _redirect(path: Path, address: Path) -> None:
    owner = json.loads((path / "owner").read_text())
    (path / "owner").write_text(json.dumps({**owner, "socket": str(address)}))


def _speak_an_older_protocol(listener: socket.socket) -> None:
    from mqplug_rocksmq._frames import pack

    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(pack({"id": "x", "protocol": 1, "pid": 1, "version": "0.0.1"}))


def test_a_socket_that_is_not_ours(path: Path, tmp_path: Path) -> None:
    """A socket at which something else answers is a typed error."""
    with socket.socket(socket.AF_UNIX) as listener, python(HOLD, path) as holder:
        assert line(holder)
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        other = threading.Thread(target=_speak_http, args=(listener,))
        other.start()
        _redirect(path, tmp_path / "s")
        with pytest.raises((AlreadyOpen, ConnectError, mqplug.Timeout)):
            connect(path)
        listener.shutdown(socket.SHUT_RDWR)
        other.join(10)


def _speak_http(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


# settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"disk_max_bytes": 1000}, "disk_max_bytes"),
        ({"memory_max_bytes": 1000}, "memory_max_bytes"),
        ({"disk_max_bytes": 64 << 20, "message_max_bytes": 32 << 20}, "an eighth of disk_max_bytes"),
        ({"sync": "never"}, "sync"),
        ({"sync_interval": 0}, "sync_interval"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, settings: dict[str, Any], complaint: str) -> None:
    """Settings that are impossible, or contradict each other, are refused before anything is made."""
    with pytest.raises(ConfigError, match=complaint):
        connect(tmp_path / "new", **settings)
    assert list(tmp_path.iterdir()) == []


def test_settings_that_differ(path: Path) -> None:
    """Two clients of one process cannot open one store with different settings."""
    with connect(path), pytest.raises(ConfigError, match="differs"):
        connect(path, disk_max_bytes=64 << 20)


# a full disk ---------------------------------------------------------------------------------------------

FULL = """
import os, subprocess, sys, threading, time
from pathlib import Path
import mqplug
path, mode = Path(sys.argv[1]), sys.argv[2]
with mqplug.connect("rocksmq", path=str(path / "store"), sync=mode) as mq:
    mq.create_topic("t")
    with mq.producer("t") as out:
        stored, refused = [], None
        while refused is None:
            try:
                stored.append(out.send(os.urandom(200_000)))
            except mqplug.Error as error:
                refused = error
        print(type(refused).__name__, refused.retryable, flush=True)
        print([message.id for message in mq.read("t")] == stored, flush=True)
        subprocess.run(["mount", "-o", "remount,size=300m", path], check=True)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                stored.append(out.send(b"again"))
                break
            except mqplug.StorageFull:
                time.sleep(0.05)
    print([message.id for message in mq.read("t")] == stored, stored[-1].coordinates[0] == len(stored) - 1, flush=True)
with mqplug.connect("rocksmq", path=str(path / "store"), sync=mode) as mq:
    print([message.id for message in mq.read("t")] == stored, len(stored) > 50)
"""


@pytest.mark.parametrize("sync", ["always", "interval", "os"])
def test_a_full_disk(tmp_path: Path, sync: str) -> None:
    """Where there is no room a send is ``StorageFull``, nothing is lost, and with room again sending goes on."""
    script = 'mount -t tmpfs -o size=64m tmpfs "$1"; "$2" -c "$3" "$1" "$4"'
    said = in_a_namespace(script, tmp_path, sys.executable, FULL, sync).splitlines()
    assert said == ["StorageFull True", "True", "True True", "True True"]


def test_everything_goes_back(path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a full disk kept from being done is not half done: topics, trims and offsets are as they were."""
    store = open_store(sync="os")
    log = new_log(store)
    put(store, log, b"a", b"b")
    store.groups.names()
    with monkeypatch.context() as full:
        full.setattr(store._engine.pages, "write", _no_room)
        full.setattr(store._engine, "_room", lambda: False)
        for attempt in (
            lambda: store.delete_topic("orders"),
            lambda: store.topics.create("new", 1, store.topics.get("orders").retention, 10),
            lambda: store.trim(log, 1),
            lambda: put(store, log, b"c"),
        ):
            with pytest.raises(StorageFull):
                attempt()
        assert store.topics.names() == ["orders"]
        assert extent(store, log) == (0, 2)
        assert values(store, log) == [b"a", b"b"]
    more = threading.Event()
    store.watch(log, more.set)
    assert put(store, log, b"c") == 2
    assert more.is_set()
    store.unwatch(log, more.set)
    store.trim(log, 1)
    assert values(store, log, 1) == [b"b", b"c"]


def _no_room(_: object) -> None:
    raise StorageFull("the disk of the store is full")


# caps ----------------------------------------------------------------------------------------------------

CAP = 64 << 20


def used(path: Path) -> int:
    """Return what a directory takes on disk."""
    size = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):
            size += file.lstat().st_blocks * 512
    return size


@pytest.mark.timeout(240)
def test_a_store_keeps_to_its_disk(path: Path, open_store: OpenStore) -> None:
    """However much is sent, a store takes no more of the disk than it may, and no topic is spared."""
    store = open_store(sync="os", disk_max_bytes=CAP)
    logs = [new_log(store, f"t{number}", milliseconds=None) for number in range(3)]
    most, end = 0, time.monotonic() + 100
    for number in range(600):
        store.append(logs[number % 3], Columns([1] * 5, [os.urandom(60_000) for _ in range(5)]))
        most = max(most, used(path))
        assert time.monotonic() < end
    assert most <= CAP
    assert all(low > 0 for low, _ in (extent(store, log) for log in logs))
    held = sum(high - low for low, high in (extent(store, log) for log in logs)) * 60_000
    assert CAP // 8 < held < CAP


def test_the_oldest_go_first(open_store: OpenStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store is too large, an old topic is emptied before a new one loses anything."""
    from mqplug_rocksmq import _clock

    now = _clock.now_ms()
    store = open_store(sync="os", disk_max_bytes=CAP)
    old, new = new_log(store, "old", milliseconds=None), new_log(store, "new", milliseconds=None)
    monkeypatch.setattr(_clock, "now_ms", lambda: now)
    put(store, old, *[os.urandom(100_000)] * 50)
    monkeypatch.setattr(_clock, "now_ms", lambda: now + 5000)
    budget = Tuning(disk=CAP).budget
    assert budget is not None
    while not extent(store, old)[0]:
        put(store, new, *[os.urandom(100_000)] * 10)
    eventually(lambda: extent(store, old)[0] == 50 or extent(store, new)[0] == 0)
    assert extent(store, new)[0] == 0 or extent(store, old)[0] == 50


def test_a_slow_group_cannot_pin_the_disk(path: Path) -> None:
    """A group that reads too slowly learns by ``PositionLost`` that what it wanted next is gone."""
    with connect(path, sync="os", disk_max_bytes=CAP, retention_interval=0.1) as mq:
        mq.create_topic("t", retention=float("inf"))
        with mq.producer("t") as out, mq.consumer("t", group="slow") as slow:
            out.send(b"first")
            assert slow.receive(timeout=10) is not None
            eventually(lambda: out.send_many([os.urandom(200_000) for _ in range(20)]) and _low(mq) > 1, 60)
            with pytest.raises(mqplug.PositionLost) as lost:
                _take_all(slow)
            assert lost.value.low is not None
            slow.seek(mqplug.EARLIEST)
            assert slow.receive(timeout=10) is not None


def _take_all(consumer: mqplug.Consumer) -> None:
    while consumer.receive(timeout=10):
        """What was fetched before is delivered first."""


def _low(mq: mqplug.Client) -> int:
    return mq.watermarks("t")[0].low.coordinates[0]


MEMORY = """
import os
from mqplug_rocksmq._topics import Retention

def resident():
    with open("/proc/self/status") as status:
        return {line.split()[0]: int(line.split()[1]) >> 10 for line in status if line.startswith("Vm")}

bare = resident()["VmRSS:"]
store = open_store(path, StoreSettings(sync="os"))
logs = [log for n in range(1000) for log in store.topics.create(f"t{n}", 10, Retention(), 30).logs]
for _ in range(3):
    for log in logs:
        put(store, log, os.urandom(2000))
for log in logs:
    assert len(values(store, log)) == 3
large = [os.urandom(1000) for _ in range(250)]
for _ in range(1500):
    put(store, logs[0], *large)
offset = 0
while slices := store.read(logs[0], offset):
    offset = slices[-1].end
store.statistics()
print(resident()["VmHWM:"] - bare, flush=True)
"""


@pytest.mark.timeout(240)
def test_memory_has_a_ceiling(path: Path) -> None:
    """With 10,000 logs and hundreds of megabytes written and read a process takes no more memory than it may."""
    with python(MEMORY, path) as process:
        assert int(line(process)) < 256
