"""Arbitrary bytes and texts: invalid ones raise typed errors, at a cost in proportion to their size."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings, strategies as st
from rocksmq_stores import OpenStore, native, new_log, put
from store_seam import PROTOCOL, PageColumns, pack_frame, read_owner

import mqplug
from mqplug import Corrupt, Error, spi
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._engine.witness import _decoded
from mqplug_rocksmq._format.keys import (
    CHANGES,
    INTENT,
    LOG,
    NOT_UNDERSTOOD,
    STORE,
    TOPIC,
    log_key,
    read_count,
    read_json,
    read_log_value,
    read_mark,
    read_position,
    read_range,
    topic_key,
)
from mqplug_rocksmq._format.page import Page, encode_page, reseal
from mqplug_rocksmq._processes.codec import to_wire
from mqplug_rocksmq._store.topics import Topic

values = st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=20)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)).map(tuple), max_size=3)


@st.composite
def pages(draw: st.DrawFn) -> bytes:
    """A page with all kinds of messages, as this program writes it."""
    found = draw(values)
    count = len(found)
    keys = draw(st.none() | st.lists(st.none() | st.binary(max_size=9), min_size=count, max_size=count))
    heads = draw(st.none() | st.lists(headers, min_size=count, max_size=count))
    times = draw(st.lists(st.integers(0, 2**60), min_size=count, max_size=count))
    return encode_page(PageColumns(times, found, keys, heads)).seal(draw(st.integers(0, 2**40)))


@st.composite
def forged(draw: st.DrawFn) -> bytes:
    """A page whose bytes were changed by a program that recomputes its checksums."""
    raw = bytearray(draw(pages()))
    for _ in range(draw(st.integers(1, 4))):
        number = draw(st.sampled_from([0, 1, 2, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1))
        place = draw(st.integers(0, len(raw) - 4)) // 4 * 4
        raw[place : place + 4] = number.to_bytes(4, "little")
    if draw(st.booleans()):
        del raw[draw(st.integers(128, len(raw))) :]
    return reseal(bytes(raw), 0)


LOOKS: dict[str, Callable[[Page], Any]] = {
    "times": Page.times,
    "keys": Page.keys,
    "values": Page.values,
    "headers": Page.headers,
    "to_arrow": lambda page: page.to_arrow().validate(full=True),
    "unsealed": Page.unsealed,
}


@settings(max_examples=300, deadline=None)
@given(forged())
def test_forged_pages(raw: bytes) -> None:
    """In any forged page, each column can be read or is ``Corrupt``."""
    with suppress(Corrupt):
        page = Page(raw)
        for look in LOOKS.values():
            with suppress(Corrupt):
                look(page)


@settings(max_examples=200, deadline=None)
@given(forged())
def test_what_is_taken_in_can_be_read(raw: bytes) -> None:
    """A page that a store accepts from another process can be read as lists and as Arrow."""
    with suppress(Corrupt):
        page = Page(raw)
        page.unsealed()
        for look in LOOKS.values():
            look(page)
        page.to_arrow().validate(full=True)


@settings(max_examples=100, deadline=None)
@given(pages())
def test_whole_pages_are_taken_in(raw: bytes) -> None:
    """A page that this program wrote is accepted unchanged."""
    times = Page(raw).times()
    if max(times) < 253_402_300_800_000:
        assert Page(raw).unsealed().newest == max(times)


# ids and positions ---------------------------------------------------------------------------------------

words = st.text(max_size=30) | st.text("mqp1:;,./-_~%0123456789abcdefABCDEF=+ ", max_size=60)


@pytest.fixture(scope="module")
def mq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mqplug.Client]:
    """A store with a topic and a message."""
    with mqplug.connect("rocksmq", path=str(tmp_path_factory.mktemp("fuzz") / "store"), sync="os") as client:
        client.create_topic("orders")
        with client.producer("orders") as out:
            out.send(b"a")
        yield client


@settings(max_examples=300)
@given(words | st.binary(max_size=60))
def test_texts_that_are_no_ids(text: str | bytes) -> None:
    """A text or bytes that is not an id or position is ``InvalidMessageId``; other types raise ``TypeError``."""
    for kind in (mqplug.MessageId, mqplug.Position):
        with suppress(mqplug.InvalidMessageId, TypeError):
            kind.parse(text)  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_ids_that_were_changed(mq: mqplug.Client, data: st.DataObject) -> None:
    """A changed id is refused, or is another id, which a store refuses or waits for."""
    text = str(mq.bounds("orders")[0].first_id)
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.text(max_size=3)) + text[place + data.draw(st.integers(0, 3)) :]
    with mq.consumer("orders", start=mqplug.EARLIEST) as orders, suppress(Error):
        orders.seek(mqplug.MessageId.parse(changed), timeout=5)
        orders.receive(timeout=0)


@settings(max_examples=200, deadline=None)
@given(coordinates=st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=3).map(tuple))
def test_coordinates_from_anywhere(mq: mqplug.Client, coordinates: tuple[int, ...]) -> None:
    """A seek to an id with any coordinates succeeds or raises a typed error."""
    [log] = mq.partitions("orders")
    with mq.consumer("orders", start=mqplug.EARLIEST) as orders:
        for place in (mqplug.MessageId(log, coordinates), mqplug.Position(log, coordinates)):
            with suppress(Error):
                orders.seek(place, timeout=5)
                orders.receive(timeout=0)


# small values --------------------------------------------------------------------------------------------

READERS: list[Callable[[bytes], Any]] = [
    read_log_value, read_range, read_count, read_position, read_json,
    lambda raw: read_mark(b"i" + bytes(20), raw),
    lambda raw: Topic.read(b"torders", raw),
    _decoded,
]  # fmt: skip


@given(st.sampled_from(READERS), st.binary(max_size=80))
def test_values_that_cannot_be_understood(read: Callable[[bytes], Any], raw: bytes) -> None:
    """An invalid small value raises one of the errors that ``check`` and ``repair`` treat as damage."""
    with suppress(*NOT_UNDERSTOOD):
        read(raw)


@pytest.mark.parametrize("key", [STORE, LOG, TOPIC, CHANGES, INTENT], ids=bytes.decode)
@pytest.mark.parametrize(
    "noise", [b"", b"\xff" * 7, b"[]", b"{}", b"[" * 99999], ids=["empty", "bytes", "list", "map", "deep"]
)
def test_a_store_whose_small_values_make_no_sense(path: Path, open_store: OpenStore, key: bytes, noise: bytes) -> None:
    """A store with an invalid small value is ``Corrupt`` at open, and releases everything."""
    store = open_store(sync="os")
    log = new_log(store)
    put(store, log, b"a")
    key = {LOG: log_key(log), TOPIC: topic_key("orders")}.get(key, key)
    if key == CHANGES:
        store.close()
        pages = Pages(path / "rocksdb")
        changes = pages.changes()
        changes.put(key, noise)
        pages.write(changes)
        pages.close()
    else:
        store.engine.change(lambda changes: changes.put(key, noise), 10)
        store.close()
    with pytest.raises(Corrupt, match="mqplug rocksmq repair"):
        open_store(sync="os")
    Pages(path / "rocksdb").close()


# a live owner --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mqplug.Client]:
    """A client of a store of this process, with a topic that other processes use."""
    path = tmp_path_factory.mktemp("owned") / "store"
    logging.getLogger("mqplug.rocksmq").setLevel(logging.CRITICAL)
    with mqplug.connect("rocksmq", path=str(path), sync="os") as client:
        client.create_topic("orders")
        yield client
    logging.getLogger("mqplug.rocksmq").setLevel(logging.NOTSET)


def talk(mq: mqplug.Client, *said: bytes) -> bytes:
    """Send bytes to the owner as any process could, and read its answers to the end."""
    owner = read_owner(native(mq).path)
    assert owner is not None
    assert owner.socket is not None
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(30)
        stranger.connect(owner.socket)
        stranger.sendall(b"".join((pack_frame({"call": "hello", "protocol": PROTOCOL}), *said)))
        stranger.shutdown(socket.SHUT_WR)
        heard = b""
        with suppress(ConnectionResetError):
            while data := stranger.recv(1 << 16):
                heard += data
        return heard


@settings(max_examples=60, deadline=None)
@given(st.lists(pages() | forged() | st.binary(max_size=200), min_size=1, max_size=3))
def test_pages_from_anybody(owned: mqplug.Client, sent: list[bytes]) -> None:
    """Everything that other processes stored can be read, in order, as lists and as Arrow."""
    append = {"call": "append", "sequence": 0, "topic": "orders", "partition": 0, "again": 0}
    talk(
        owned,
        pack_frame({"call": "produce", "producer": uuid4().hex, "strict": True}),
        pack_frame({**append, "pages": [*map(len, sent)]}, *sent),
    )
    with owned.producer("orders") as out:
        last = out.send(b"last")
    with owned.consumer("orders", start=mqplug.last(50)) as orders:
        ids = []
        while not ids or ids[-1] != last:
            batch = orders.receive_many(1000, timeout=20)
            ids += batch.ids
            assert batch.to_arrow().num_rows == len([message.timestamp for message in batch])


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
requests = st.fixed_dictionaries(
    {"call": st.sampled_from(["poll", "tend", "seek", "pause", "resume", "revoked", "wake", "commit", "close"])},
    optional=dict.fromkeys(("number", "most", "timeout", "positions", "logs", "arguments"), junk),
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([None, "group"]), st.lists(requests, min_size=1, max_size=4), st.binary(max_size=30))
def test_a_member_that_talks_nonsense(
    owned: mqplug.Client, group: str | None, said: list[dict[str, Any]], rest: bytes
) -> None:
    """A member that sends nonsense ends and returns its messages, and no other member ends."""
    logs = owned.partitions("orders")
    start: Any = spi.Latest() if group else {log: mqplug.Position(log, (0,)) for log in logs}
    options = to_wire(spi.ConsumerOptions(logs=logs, group=group, start=start))
    opening = {"call": "consume", "options": options, "timeout": 5, "holding": to_wire({})}
    heard = talk(owned, pack_frame(opening), *map(pack_frame, said), rest)
    assert b'"token"' in heard
    with owned.consumer("orders", group="group", mode="exclusive") as alone, owned.producer("orders") as out:
        sent = out.send(b"x")
        while (message := alone.receive(timeout=20)) and message.id != sent:
            """Continue."""
        assert message is not None
