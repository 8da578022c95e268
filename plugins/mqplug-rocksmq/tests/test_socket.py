"""The socket of a store's owner."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from rocksmq_stores import eventually, new_log, serving, store_settings
from store_seam import PageColumns, Store, close_store, open_store, read_owner, socket_path

import mqplug
from mqplug_rocksmq._format.page import encode_page
from mqplug_rocksmq._processes import server
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.remote_store import RemoteConnection
from mqplug_rocksmq._processes.resending import NumberedSend, SendOutcome
from mqplug_rocksmq._processes.served_producer import ServedProducer


def test_what_a_guest_sends_together_is_synced_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends of a client process that arrive while the owner is busy share one sync, if it wants them on disk."""
    synced: list[int] = []
    came, go_on = threading.Event(), threading.Event()

    class Parcels(ServedProducer):
        def serve(self, header: FrameHeader, body: bytes) -> None:
            came.set()
            assert go_on.wait(10)
            super().serve(header, body)

    monkeypatch.setitem(server._SESSIONS, "produce", Parcels)
    store = open_store(path, store_settings(sync="os"))
    monkeypatch.setattr(store, "sync", lambda: synced.append(1))
    new_log(store)
    remote = RemoteConnection(path, 10)
    outlet = remote.open_outlet(bytes(16), 10, strict=True)
    page = encode_page(PageColumns([1], [b"x"])).seal(0)
    for sequence in range(20):
        assert outlet.send(NumberedSend(sequence, "orders", 0, [page], lambda *_: None))
        assert came.wait(10)
    go_on.set()
    outcomes: list[SendOutcome] = []
    eventually(lambda: outcomes.extend(outlet.receive(0.1)) or len(outcomes) == 20)
    assert [each.first for each in outcomes] == list(range(20))
    assert 1 <= len(synced) <= 3
    outlet.close(10)
    remote.close(10)
    close_store(store, 10)


def test_the_socket_is_private(path: Path, shared: Store) -> None:
    """Only this user can reach the socket, and its path is short."""
    address = socket_path(path)
    owner = read_owner(path)
    assert owner is not None
    assert owner == (os.getpid(), str(address))
    assert stat.S_IMODE(address.stat().st_mode) == 0o600
    assert stat.S_IMODE(address.parent.stat().st_mode) & 0o077 == 0
    assert len(str(address)) < 100
    close_store(shared)
    assert not address.exists()


def test_a_long_path(tmp_path: Path) -> None:
    """The owner of a store with a long path serves other processes."""
    path = tmp_path.joinpath(*["x" * 100] * 5)
    with serving(path), mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        assert mq.topics() == ["orders"]


def test_a_directory_that_others_can_enter(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket is never created where other users could replace it."""
    open_to_all = tmp_path / "run"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(open_to_all))
    store = open_store(path, store_settings())
    assert list(open_to_all.iterdir()) == []
    close_store(store)
