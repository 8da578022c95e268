from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksmq_words import extent, line, new_log, put, python, values

from mqplug import AlreadyOpen, Closed, ConfigError, ConnectError, ForkedClient, TopicNotFound
from mqplug_rocksmq import _frames
from mqplug_rocksmq._layout import Place
from mqplug_rocksmq._ownership import owner_of, socket_path
from mqplug_rocksmq._reading import Trimmed
from mqplug_rocksmq._remote import RemoteStore
from mqplug_rocksmq._shared import close_store, open_or_connect, open_store
from mqplug_rocksmq._store import Store, StoreSettings

OWNER = """
store = open_store(path, StoreSettings(sync="os"))
log = new_log(store)
put(store, log, b"a", b"b", b"c")
print("ready", flush=True)
for command in sys.stdin:
    name, *rest = command.split()
    if name == "put":
        put(store, log, rest[0].encode())
    elif name == "trim":
        store.trim(log, int(rest[0]))
    elif name == "delete":
        store.delete_topic("orders")
    print("done", flush=True)
close_store(store)
"""


@pytest.fixture
def shared(path: Path) -> Iterator[Store]:
    """A store of this process, as clients share it."""
    store = open_store(path, StoreSettings(sync="os"))
    yield store
    close_store(store, 10)


@pytest.fixture
def owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the store."""
    with python(OWNER, path) as process:
        assert line(process) == "ready"
        yield process


def tell(owner: subprocess.Popen[str], command: str) -> None:
    """Have the owner do something."""
    assert owner.stdin is not None
    owner.stdin.write(command + "\n")
    owner.stdin.flush()
    assert line(owner) == "done"


@pytest.fixture
def remote(path: Path, owner: subprocess.Popen[str]) -> Iterator[RemoteStore]:
    """The store as this process sees it while the other owns it."""
    store = open_or_connect(path, StoreSettings())
    assert isinstance(store, RemoteStore)
    yield store
    store.close()


def test_clients_share_a_store(path: Path, shared: Store) -> None:
    """Clients of one process get the same store, by whatever path, and the last one closes it."""
    (path.parent / "link").symlink_to(path)
    again = open_store(path.parent / "link", shared.settings)
    assert again is shared
    close_store(again)
    new_log(shared)
    close_store(shared)
    with pytest.raises(Closed):
        shared.check()


def test_settings_must_agree(path: Path, shared: Store) -> None:
    """A second client with other settings is refused, because it would not get them."""
    with pytest.raises(ConfigError, match="sync='os'"):
        open_store(path, StoreSettings(sync="always"))


def test_only_one_process_owns(path: Path, owner: subprocess.Popen[str]) -> None:
    """A second process is told who owns the store."""
    with pytest.raises(AlreadyOpen, match=str(owner.pid)):
        open_store(path, StoreSettings())


def test_ownership_ends_with_its_process(path: Path, owner: subprocess.Popen[str]) -> None:
    """When the owner is killed, the next process can own the store at once."""
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    store = open_store(path, StoreSettings())
    assert values(store, 0) == [b"a", b"b", b"c"]
    close_store(store)


def test_a_copy_does_not_end_ownership(path: Path, shared: Store, tmp_path: Path) -> None:
    """The owner may copy its own directory, and no second process gets in."""
    log = new_log(shared)
    shutil.copytree(path, tmp_path / "copy")
    with python("open_store(path, StoreSettings())", path) as second:
        assert second.wait(30) != 0
    assert put(shared, log, b"a") == 0


def test_fork(shared: Store) -> None:
    """In the child of a fork the store refuses everything and the child ends well; the parent goes on."""
    log = new_log(shared)
    pid = os.fork()
    if pid == 0:
        refused = 0
        for call in (lambda: put(shared, log, b"lost"), lambda: shared.read(log, 0), lambda: shared.watermarks([log])):
            try:
                call()
            except ForkedClient:
                refused += 1
        shared.close()
        os._exit(0 if refused == 3 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    put(shared, log, b"kept")
    assert values(shared, log) == [b"kept"]


def test_a_forked_child_exits_normally(path: Path) -> None:
    """A child that ends by itself neither hangs nor crashes in RocksDB, and frees nothing of its parent's."""
    code = """
store = open_store(path, StoreSettings())
log = new_log(store)
if os.fork() == 0:
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]), put(store, log, b"a"), flush=True)
close_store(store)
"""
    with python(code, path) as process:
        assert line(process) == "7 0"
        assert process.wait(30) == 0


def test_a_forked_child_does_not_inherit_ownership(path: Path) -> None:
    """When the parent dies, its forked child does not keep the store from others."""
    code = """
store = open_store(path, StoreSettings())
if os.fork() == 0:
    print(os.getpid(), flush=True)
signal.pause()
"""
    with python(code, path) as process:
        child = int(line(process))
        process.send_signal(signal.SIGKILL)
        process.wait()
        try:
            close_store(open_store(path, StoreSettings()))
        finally:
            os.kill(child, signal.SIGKILL)


def test_reading_from_another_process(remote: RemoteStore, owner: subprocess.Popen[str]) -> None:
    """Another process sees topics, messages, watermarks and groups as the owner does."""
    topic = remote.topics.get("orders")
    log = topic.logs[0]
    assert (remote.topics.names(), values(remote, log), extent(remote, log)) == (["orders"], [b"a", b"b", b"c"], (0, 3))
    assert (remote.bounds(log), remote.first_at(log, 1000), remote.first_at(log, 1001)) == ((0, 2), 0, 3)
    assert (remote.nth_last(log, 2), remote.groups.names(), remote.groups.place("g", log)) == (1, [], None)
    tell(owner, "trim 2")
    with pytest.raises(Trimmed) as trimmed:
        remote.read(log, 0)
    assert trimmed.value.low == 2


def test_group_places_from_another_process(path: Path, shared: Store) -> None:
    """A group's place, gaps included, can be read by another process."""
    log = new_log(shared)
    shared.groups.store("g", {log: Place(3, ((4, 6), (9, 10)))}, 30)
    remote = RemoteStore(path)
    assert (remote.groups.names(log), remote.groups.place("g", log)) == (["g"], Place(3, ((4, 6), (9, 10))))
    remote.close()


def test_another_process_is_woken(remote: RemoteStore, owner: subprocess.Popen[str]) -> None:
    """A reader at the end of a log in another process is told of the next message."""
    assert not remote.wait({0: 3}, 0.01)
    timer = threading.Timer(0.05, tell, (owner, "put d"))
    timer.start()
    assert remote.wait({0: 3}, 20)
    timer.join()
    assert values(remote, 0, 3) == [b"d"]


def test_typed_errors_cross_the_socket(remote: RemoteStore, owner: subprocess.Popen[str]) -> None:
    """What goes wrong at the owner is raised here as the same error."""
    with pytest.raises(TopicNotFound) as missing:
        remote.topics.get("nope")
    assert missing.value.topic == "nope"
    timer = threading.Timer(0.05, tell, (owner, "delete"))
    timer.start()
    with pytest.raises(TopicNotFound):
        remote.wait({0: 3}, 20)
    timer.join()


def test_the_owner_goes(remote: RemoteStore, owner: subprocess.Popen[str]) -> None:
    """When the owner dies, a waiting reader is told at once."""
    timer = threading.Timer(0.05, owner.send_signal, (signal.SIGKILL,))
    timer.start()
    with pytest.raises(ConnectError, match="is gone"):
        remote.wait({0: 3}, 20)
    timer.join()


def test_large_answers(path: Path, shared: Store) -> None:
    """Answers larger than any socket buffer arrive whole."""
    log = new_log(shared)
    large = [bytes([number]) * 3_000_000 for number in range(5)]
    for value in large:
        put(shared, log, value)
    remote = RemoteStore(path)
    assert values(remote, log) == large
    remote.close()


def test_the_socket_is_private(path: Path, shared: Store) -> None:
    """Nobody but this user can reach the socket, and its path is short."""
    address = socket_path(path)
    owner = owner_of(path)
    assert owner is not None
    assert owner == (os.getpid(), str(address))
    assert stat.S_IMODE(address.stat().st_mode) == 0o600
    assert stat.S_IMODE(address.parent.stat().st_mode) & 0o077 == 0
    assert len(str(address)) < 100
    close_store(shared)
    assert not address.exists()


@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\n\r\n", b"MQF1" + b"\xff" * 8, _frames.pack({"call": "wait"}), b"MQF1\x02\0\0\0\0\0\0\0[]"],
)
def test_strangers_are_dropped(path: Path, shared: Store, noise: bytes) -> None:
    """What does not speak the language is cut off, and others are served as before."""
    owner = owner_of(path)
    assert owner is not None
    assert owner.socket is not None
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(20)
        stranger.connect(owner.socket)
        stranger.sendall(noise)
        assert stranger.recv(1) == b""
    remote = RemoteStore(path)
    assert remote.id == shared.id
    remote.close()


def test_unknown_calls_are_refused(path: Path, shared: Store) -> None:
    """A call that there is not, or one with wrong arguments, is answered with an error."""
    remote = RemoteStore(path)
    wrong: list[dict[str, Any]] = [
        {"call": "append"},
        {"call": "read", "log": 0},
        {"call": "first_at", "log": "x", "time": 1},
        {"call": "place", "group": 5, "log": 0},
        {"call": "watermarks", "logs": 5},
    ]
    for request in wrong:
        with pytest.raises((ConnectError, TopicNotFound)):
            remote.ask(request)
    assert remote.topics.names() == []
    remote.close()


def test_close_with_waiting_readers(path: Path, shared: Store) -> None:
    """Closing the store ends the waits of other processes."""
    log = new_log(shared)
    remote = RemoteStore(path)
    timer = threading.Timer(0.05, close_store, (shared, 10))
    timer.start()
    with pytest.raises((ConnectError, Closed)):
        remote.wait({log: 0}, 20)
    timer.join()
    remote.close()


def test_nothing_native_is_imported_to_describe() -> None:
    """Looking at the plugin imports neither RocksDB nor pyarrow."""
    code = "import mqplug_rocksmq, sys; print(sorted({'rocksdict', 'pyarrow', 'crc32c'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize("sync", ["always", "interval", "os"])
def test_a_program_that_forgets_to_close_ends_well(path: Path, sync: str) -> None:
    """At the end of the program its store is closed for it: no crash, nothing lost, and no socket is left."""
    program = f"""
import mqplug
mq = mqplug.connect("rocksmq", path={str(path)!r}, sync={sync!r})
mq.create_topic("orders")
out = mq.producer("orders")
for number in range(3000):
    out.submit(b"%d" % number)
out.flush()
out.submit(b"last")
"""
    command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not socket_path(path.resolve()).exists()
    store = open_store(path, StoreSettings())
    try:
        assert extent(store, store.topics.get("orders").logs[0])[1] >= 3000
    finally:
        close_store(store)
