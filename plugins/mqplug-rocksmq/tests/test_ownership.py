"""Ownership of a store, its end, and what a fork does not inherit."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksmq_stores import line, new_log, nightly, put, python, serving, store_settings, values
from store_seam import Ownership, Store, close_store, open_store, socket_path

import mqplug
from mqplug import AlreadyOpen, Closed, ConfigError, ForkedClient

# ownership -----------------------------------------------------------------------------------------------------


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
    """A second client with other settings is refused, because they would not take effect."""
    with pytest.raises(ConfigError, match="sync='os'"):
        open_store(path, store_settings(sync="always"))


def test_only_one_process_owns(path: Path, owner: subprocess.Popen[str]) -> None:
    """A second process gets an error that names the owner."""
    with pytest.raises(AlreadyOpen, match=str(owner.pid)):
        open_store(path, store_settings())


OWNER = """
store = open_store(path, store_settings(sync="os"))
put(store, new_log(store), b"a", b"b", b"c")
print("ready", flush=True)
sys.stdin.read()
"""


def test_ownership_ends_with_its_process(path: Path) -> None:
    """When the owner is killed, the next process can own the store at once."""
    with python(OWNER, path) as process:
        assert line(process) == "ready"
        process.send_signal(signal.SIGKILL)
        process.wait()
        store = open_store(path, store_settings())
        assert values(store, 0) == [b"a", b"b", b"c"]
        close_store(store)


def test_a_copy_does_not_end_ownership(path: Path, shared: Store, tmp_path: Path) -> None:
    """The owner may copy its own directory, and no second process gets in."""
    log = new_log(shared)
    shutil.copytree(path, tmp_path / "copy")
    with python("open_store(path, store_settings())", path) as second:
        assert second.wait(30) != 0
    assert put(shared, log, b"a") == 0


def test_an_owner_that_serves_nobody(path: Path) -> None:
    """A store whose owner has no socket is reported as open elsewhere, within the timeout."""
    ownership = Ownership(path)
    try:
        with pytest.raises(AlreadyOpen, match=str(os.getpid())):
            mqplug.connect("rocksmq", path=str(path), timeout=5)
    finally:
        ownership.release()


# forks -------------------------------------------------------------------------------------------------------


def test_fork(shared: Store) -> None:
    """In the child of a fork the store refuses everything and the child ends normally; the parent continues."""
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
store = open_store(path, store_settings())
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
    """A forked child keeps the store from no process after its parent's death, which client processes notice."""
    code = """
mq = mqplug.connect("rocksmq", path=str(path))
mq.create_topic("orders")
if os.fork() == 0:
    print(os.getpid(), flush=True)
signal.pause()
"""
    with python(code, path) as process:
        child = int(line(process))
        try:
            with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders") as out:
                out.send(b"to the owner")
                process.send_signal(signal.SIGKILL)
                process.wait()
                out.send(b"to the next", timeout=10)
                assert [message.value for message in mq.read("orders")] == [b"to the owner", b"to the next"]
        finally:
            os.kill(child, signal.SIGKILL)


# ending ------------------------------------------------------------------------------------------------------


def test_nothing_native_is_imported_to_describe() -> None:
    """Describing the plugin imports neither RocksDB nor pyarrow."""
    code = "import mqplug_rocksmq, sys; print(sorted({'rocksdict', 'pyarrow', 'crc32c'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize("sync", ["interval", *nightly("always", "os")])
def test_a_program_that_closes_nothing_exits_well(path: Path, sync: str) -> None:
    """A program's open store is closed when it exits: no crash, nothing lost, and no socket left."""
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
    store = open_store(path, store_settings())
    try:
        assert store.watermarks([store.topics.get("orders").logs[0]])[0].high >= 3000
    finally:
        close_store(store)


@pytest.mark.parametrize("number", [signal.SIGTERM, *nightly(signal.SIGINT)])
def test_serve_ends_in_order(path: Path, number: signal.Signals) -> None:
    """``mqplug rocksmq serve`` ends on a signal, and leaves no socket."""
    with serving(path) as server:
        server.send_signal(number)
        assert server.wait(30) == 0
    assert not socket_path(path.resolve()).exists()


def test_serve_where_another_process_owns(path: Path, owner: subprocess.Popen[str]) -> None:
    """A second ``serve`` reports in one line which process owns the store."""
    command = [sys.executable, "-m", "mqplug_cli", "rocksmq", "serve", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"process {owner.pid}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def serve_and_tell(path: Path, manager: socket.socket) -> subprocess.Popen[str]:
    """Start ``serve --wait`` under a service manager."""
    command = [sys.executable, "-m", "mqplug_cli", "rocksmq", "serve", str(path), "--wait"]
    environment = os.environ | {"NOTIFY_SOCKET": manager.getsockname()}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """The socket of a service manager, to which its services report."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening, tempfile.TemporaryDirectory() as folder:
        listening.bind(f"{folder}/manager")  # such a path must be short
        listening.settimeout(30)
        yield listening


def test_serve_waits_for_another_owner(path: Path, owner: subprocess.Popen[str], manager: socket.socket) -> None:
    """``serve --wait`` is ready while another program owns the store, and serves it when that program ends."""
    with serve_and_tell(path, manager) as server:
        assert manager.recv(1000).decode().startswith("READY=1\nSTATUS=waiting: the store")
        assert line(server) == f"waiting: the store {path} is owned by process {owner.pid}"
        owner.terminate()
        assert manager.recv(1000).decode() == f"READY=1\nSTATUS=serving {path}"
        assert line(server) == f"serving {path} (process {server.pid})"
        assert owner.wait(30) == 0
        server.terminate()
        assert manager.recv(1000) == b"STOPPING=1"
        assert server.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, *nightly(signal.SIGTERM)])
def test_a_serve_that_waits_ends_in_order(
    path: Path, owner: subprocess.Popen[str], manager: socket.socket, number: signal.Signals
) -> None:
    """``serve --wait`` ends on a signal before it owns the store, and does not disturb the owner."""
    with serve_and_tell(path, manager) as server:
        assert line(server).startswith("waiting")
        server.send_signal(number)
        assert server.wait(30) == 0
    assert owner.poll() is None
