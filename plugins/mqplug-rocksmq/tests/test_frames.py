"""The socket's protocol: frames and words are decoded as sent; anything else ends only its own connection."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from rocksmq_stores import eventually, store_settings
from store_seam import Ownership, PageColumns, Store, close_store, open_store, read_owner

import mqplug
from mqplug import AlreadyOpen, ConnectError, Error, Log, Position, PositionLost, spi
from mqplug_rocksmq._format.page import Page, encode_page
from mqplug_rocksmq._processes import server
from mqplug_rocksmq._processes.client_connection import ClientConnection
from mqplug_rocksmq._processes.codec import error_from_wire, error_to_wire, from_wire, to_wire
from mqplug_rocksmq._processes.frames import LARGE_BODY, MAX_BODY, PROTOCOL, FrameReader, pack_frame

pytestmark = pytest.mark.python

LOG = Log("rocksmq", "store", "orders", 0, "1")
HELLO = {"call": "hello", "protocol": PROTOCOL}

texts = st.text(max_size=20)
numbers = st.integers(-(2**70), 2**70)
logs = st.builds(Log, texts, texts, texts, st.integers(0, 10_000), texts)
positions = st.builds(Position, logs, st.lists(numbers, min_size=1, max_size=3).map(tuple))
scalars = st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | texts | logs | positions
everything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(texts | logs, inner, max_size=4)
        | st.builds(spi.GroupPosition, positions, st.just((((1,), (2,)), ((4,), (9,)))))
        | st.builds(spi.CreateTopic, texts, st.integers(1, 9))
        | st.builds(
            spi.Ingest, st.tuples(st.builds(spi.Staged, texts, texts, texts, numbers, numbers, texts)), texts, numbers
        )
        | st.builds(spi.Trim, st.dictionaries(logs, positions, max_size=3))
    ),
    max_leaves=10,
)


@given(everything)
def test_words_come_back(value: object) -> None:
    """Every value of the driver interface is decoded as it was sent."""
    assert from_wire(json.loads(json.dumps(to_wire(value)))) == value


@given(st.recursive(st.none() | numbers | texts, lambda inner: st.lists(inner, max_size=5), max_leaves=20))
def test_words_that_make_no_sense(words: object) -> None:
    """Anything else is a ``ValueError``, and only listed types are created."""
    with contextlib.suppress(ValueError):
        from_wire(words)


@pytest.mark.parametrize("words", [["Popen", 1], ["Error", "x"], ["Trim", 1, 2], ["Trim"], [[]], ["log", 1]])
def test_what_is_not_listed(words: object) -> None:
    """A type that is not listed, or has other fields, is not created."""
    with pytest.raises(ValueError, match="not understood"):
        from_wire(words)


def test_errors_come_back() -> None:
    """An error keeps its type, text and fields; an unexpected error in the owner is a ``PluginError``."""
    lost = PositionLost("gone", log=LOG, low=Position(LOG, (5,)), fix="seek")
    again = error_from_wire(json.loads(json.dumps(error_to_wire(lost))))
    assert isinstance(again, PositionLost)
    assert (again.message, again.fix, again.log, again.low) == ("gone", "seek", LOG, Position(LOG, (5,)))
    assert isinstance(error_from_wire(error_to_wire(ValueError("no"))), ValueError)
    assert isinstance(error_from_wire(error_to_wire(ZeroDivisionError())), mqplug.PluginError)
    assert isinstance(error_from_wire({"kind": "SystemExit"}), ConnectError)


@given(st.lists(st.tuples(st.dictionaries(texts, numbers, max_size=3), st.binary(max_size=100)), max_size=5), st.data())
def test_frames_come_back(frames: list[tuple[dict[str, int], bytes]], data: st.DataObject) -> None:
    """Frames arrive whole and in order, however their bytes are split."""
    raw = b"".join(pack_frame(header, body) for header, body in frames)
    inbox, found = FrameReader(), []
    while raw:
        size = data.draw(st.integers(1, len(raw)))
        inbox.feed(raw[:size])
        raw = raw[size:]
        while frame := inbox.take():
            found.append(frame)
    assert found == frames


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frames(raw: bytes) -> None:
    """Anything else is a ``ConnectError`` as soon as it can be recognized."""
    inbox = FrameReader()
    inbox.feed(raw)
    with contextlib.suppress(ConnectError):
        while inbox.take():
            """Continue."""


def test_frames_are_bounded() -> None:
    """A frame that declares more than the maximum size is refused before its bytes arrive."""
    inbox = FrameReader()
    inbox.feed(struct.pack("<4sII", b"MQF1", 2, MAX_BODY + 1))
    with pytest.raises(ConnectError, match="too large a frame"):
        inbox.take()


@given(st.binary(max_size=50), st.dictionaries(texts, numbers, max_size=3), st.data())
def test_large_frames_come_back(before: bytes, header: dict[str, int], data: st.DataObject) -> None:
    """A large frame gets its own memory, in which its body is aligned. Frames before and after it arrive whole."""
    large = os.urandom(LARGE_BODY)
    raw = pack_frame({}, before) + pack_frame(header, large) + pack_frame({"behind": 1})
    inbox, split = FrameReader(), data.draw(st.integers(1, len(raw) - LARGE_BODY // 2))
    inbox.feed(raw[:split])
    found: list[tuple[dict[str, Any], bytes]] = []
    while len(found) < 3:
        if frame := inbox.take():
            found.append((frame[0], bytes(frame[1])))
        elif rest := inbox.large_frame():
            while size := min(len(rest.rest), 10_000):
                rest.rest[:size] = raw[split : split + size]
                rest.received(size)
                split += size
            words, body = rest.take()
            assert body.readonly
            assert pa.py_buffer(body).address % 8 == 0
            found.append((words, bytes(body)))
        else:
            inbox.feed(raw[split : split + 5])
            split += 5
    assert found == [({}, before), (header, large), ({"behind": 1}, b"")]


# against a live owner ------------------------------------------------------------------------------------------


@pytest.fixture
def shared(path: Path) -> Iterator[Store]:
    """A store of this process, with the topic "orders"."""
    store = open_store(path, store_settings(sync="os"))
    yield store
    close_store(store, 10)


def dial(path: Path) -> socket.socket:
    """Connect to the owner of a store, as any program could."""
    owner = read_owner(path)
    assert owner is not None
    assert owner.socket is not None
    stranger = socket.socket(socket.AF_UNIX)
    stranger.settimeout(20)
    stranger.connect(owner.socket)
    return stranger


def heard(stranger: socket.socket) -> bytes:
    """Return all bytes until the connection ends."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while data := stranger.recv(1 << 16):
            found += data
    return found


def serves(path: Path, store: Store) -> bool:
    """Return whether the owner answers as before."""
    link = ClientConnection(read_owner(path).socket, path, 20)  # type: ignore[union-attr, arg-type]
    try:
        return bool(link.owner["store"] == store.id)
    finally:
        link.close()


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"MQF1" + b"\xff" * 8,
        b"MQF1\x02\0\0\0\0\0\0\0[]",
        pack_frame({"call": "health"}),
        pack_frame({"no": "call"}),
        pack_frame(HELLO) + b"nonsense nonsense",
        pack_frame(HELLO) + pack_frame({"call": ["x"]}),
        pack_frame(HELLO)
        + pack_frame({"call": "produce", "producer": "00" * 16, "strict": 1})
        + pack_frame({"call": "append"}),
        pack_frame(HELLO)
        + pack_frame({"call": "produce", "producer": "00" * 16, "strict": 1})
        + pack_frame({"call": "append", "sequence": 0, "topic": "t", "partition": 0, "pages": [9], "again": 0}, b"x"),
    ],
)
def test_strangers_are_hung_up_on(path: Path, shared: Store, noise: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A client with another protocol is disconnected, which is logged once, and others are served as before."""
    with caplog.at_level(logging.WARNING, "mqplug.rocksmq"), dial(path) as stranger:
        stranger.sendall(noise)
        heard(stranger)
        eventually(lambda: caplog.records)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert serves(path, shared)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_an_owner_survives_anything(fuzzed: tuple[Path, Store], data: st.DataObject) -> None:
    """The owner survives any bytes and calls."""
    path, store = fuzzed
    words = st.recursive(st.none() | numbers | texts, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
    calls = st.sampled_from(
        ["administer", "commit", "settle", "resolve", "consume", "produce", "poll", "append", "stats"]
    )
    names = st.sampled_from(["arguments", "timeout", "options", "producer", "strict", "pages", "sequence", "most"])
    request = st.fixed_dictionaries({"call": calls}).flatmap(
        lambda call: st.dictionaries(names, words, max_size=4).map(lambda rest: {**rest, **call})
    )
    noise = b"".join(
        data.draw(st.lists(st.binary(max_size=50) | request.map(pack_frame), min_size=1, max_size=4)),
    )
    with dial(path) as stranger:
        stranger.sendall(pack_frame(HELLO) + noise)
        stranger.shutdown(socket.SHUT_WR)
        heard(stranger)
    assert serves(path, store)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Store]]:
    """A store that receives all kinds of input."""
    path = tmp_path_factory.mktemp("fuzzed") / "store"
    store = open_store(path, store_settings(sync="os"))
    logging.getLogger("mqplug.rocksmq").setLevel(logging.CRITICAL)
    yield path, store
    logging.getLogger("mqplug.rocksmq").setLevel(logging.NOTSET)
    close_store(store, 10)


@given(st.binary(min_size=1, max_size=40), st.integers(0, 300))
def test_pages_from_elsewhere(noise: bytes, place: int) -> None:
    """A page that was changed in transit is refused, without other effects."""
    raw = encode_page(PageColumns([1, 2], [b"a", None], [None, b"k"], [(("h", b"v"),), ()])).seal(0)
    place = min(place, len(raw) - 1)
    changed = (raw[:place] + noise + raw[place + len(noise) :])[: len(raw)]
    if changed == raw:
        return
    with pytest.raises(Error):
        Page(changed).unsealed()


def test_who_says_nothing(path: Path, shared: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that does not say hello is closed after a while."""
    monkeypatch.setattr(server, "HELLO_S", 0.1)
    with dial(path) as stranger:
        assert heard(stranger) == b""


def test_other_users(path: Path, shared: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user is refused, and a socket of another user is not used."""
    with monkeypatch.context() as patched:
        patched.setattr("mqplug_rocksmq._processes.server.user_of", lambda _: os.getuid() + 1)
        with dial(path) as stranger:
            assert heard(stranger) == b""
    monkeypatch.setattr("mqplug_rocksmq._processes.client_connection.user_of", lambda _: os.getuid() + 1)
    with pytest.raises(ConnectError, match="another user") as refused:
        serves(path, shared)
    assert not refused.value.retryable


# versions ------------------------------------------------------------------------------------------------------


def test_a_guest_of_another_version(path: Path, shared: Store) -> None:
    """A client process with another protocol gets the owner's protocol version, and is disconnected."""
    with dial(path) as stranger:
        stranger.sendall(pack_frame({"call": "hello", "protocol": PROTOCOL + 1}))
        inbox = FrameReader()
        inbox.feed(heard(stranger))
    frame = inbox.take()
    assert frame is not None
    assert (frame[0]["protocol"], frame[0]["pid"], frame[0]["version"]) == (PROTOCOL, os.getpid(), "0.1.0")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"protocol": 1, "pid": 12345, "version": "0.0.1"}, "process 12345 owns .* mqplug-rocksmq 0.0.1"),
        (
            {"error": {"kind": "ConnectError", "message": "not understood"}},
            "of another version, which speaks protocol None",
        ),
        ({}, "protocol None"),
    ],
)
def test_an_owner_of_another_version(path: Path, tmp_path: Path, answer: dict[str, Any], message: str) -> None:
    """A client process of an owner with another protocol gets the owner's process and version."""
    address = Path(os.environ["XDG_RUNTIME_DIR"], "old.sock")
    ownership = Ownership(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        ownership.announce(address)
        threading.Thread(target=answer_all, args=(listener, answer), daemon=True).start()
        try:
            with pytest.raises(AlreadyOpen, match=message):
                mqplug.connect("rocksmq", path=str(path), timeout=20)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            ownership.release()
            address.unlink()


def answer_all(listener: socket.socket, answer: dict[str, Any]) -> None:
    """Give the same answer to every connection."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(pack_frame(answer))
