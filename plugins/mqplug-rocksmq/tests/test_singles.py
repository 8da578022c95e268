from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from rocksmq_stores import OpenStore, new_log, values
from store_seam import PageColumns, Store

import mqplug
from mqplug import Corrupt
from mqplug_rocksmq._format.page import Page, encode_page, encode_single, reseal
from mqplug_rocksmq._format.slices import gather_single_pages

Found = list[tuple[int, bytes]]
items = st.none() | st.binary(max_size=20)


def sent(*messages: tuple[bytes | None, bytes | None], start: int = 5) -> Found:
    """Return pages of one message each, as a log has them."""
    return [
        (offset, encode_single(1000 + offset, key, value).seal(offset))
        for offset, (key, value) in enumerate(messages, start)
    ]


def columns(page: Any) -> tuple[Any, ...]:
    """Return all columns of a page, or of a run of pages."""
    return page.count, page.before, page.times(), page.keys(), page.values(), page.headers()


def put_singly(store: Store, log: int, *found: bytes) -> None:
    """Append a page for each value."""
    for value in found:
        store.append(log, PageColumns([1000], [value]))


@given(st.lists(st.tuples(items, items), min_size=1, max_size=30))
def test_a_run_says_what_its_pages_say(messages: list[tuple[bytes | None, bytes | None]]) -> None:
    """Pages of one message read together have the content of each page, and of one page with all of them."""
    found = sent(*messages)
    run = gather_single_pages(found, 0)
    assert run is not None
    alone = [Page(raw) for _, raw in found]
    assert (run.count, run.before, run.size) == (len(found), 5, sum(len(raw) for _, raw in found))
    assert run.times() == [page.times()[0] for page in alone]
    assert run.keys() == [page.keys()[0] for page in alone]
    assert run.values() == [page.values()[0] for page in alone]
    assert columns(run.as_page()) == columns(run)


@pytest.mark.parametrize(
    "page",
    [
        encode_page(PageColumns([1, 2], [b"a", b"b"])),
        encode_page(PageColumns([1], [b"a"], None, [(("name", b"v"),)])),
        encode_single(1, None, b"v" * 5000),
    ],
    ids=["two messages", "headers", "large"],
)
def test_what_is_no_single(page: Any) -> None:
    """A page with several messages, headers or large values ends a run, and begins none."""
    found = [*sent((None, b"a"), (None, b"b")), (7, page.seal(7)), *sent((None, b"c"), start=8)]
    run = gather_single_pages(found, 0)
    assert run is not None
    assert run.values() == [b"a", b"b"]
    assert gather_single_pages(found, 2) is None


def test_a_gap_ends_a_run() -> None:
    """A gap of skipped offsets ends a run: the next one begins after it."""
    found = [*sent((None, b"a")), (9, encode_single(1, None, b"b").seal(6))]
    runs = [gather_single_pages(found, 0), gather_single_pages(found, 1)]
    assert [(run.before, run.values()) for run in runs if run] == [(5, [b"a"]), (6, [b"b"])]


def test_every_flipped_bit_ends_a_run() -> None:
    """A page with a flipped bit is never part of a run."""
    found = sent((b"key", b"a"), (b"key", b"b"))
    raw = found[1][1]
    for index in range(len(raw)):
        damaged = bytearray(raw)
        damaged[index] ^= 1 << index % 8
        run = gather_single_pages([found[0], (6, bytes(damaged))], 0)
        assert run is not None
        assert run.values() == [b"a"]


@pytest.mark.parametrize("length", [0, 11, 12, 90, 130])
def test_truncated(length: int) -> None:
    """A truncated page is not part of a run."""
    found = sent((None, b"a"), (None, b"b"))
    run = gather_single_pages([found[0], (6, found[1][1][:length])], 0)
    assert run is not None
    assert run.count == 1
    assert gather_single_pages([(6, found[1][1][:length])], 0) is None


@pytest.mark.parametrize("length", [90, 130])
def test_truncated_before_its_time(length: int) -> None:
    """A page that ends before its timestamp is in no run, whatever its checksum."""
    assert gather_single_pages([(3, reseal(encode_single(7, None, None).seal(3)[:length], 3))], 0) is None


@settings(max_examples=300, deadline=None)
@given(items, items, st.data())
def test_forged_singles(key: bytes | None, value: bytes | None, data: st.DataObject) -> None:
    """A forged page is not part of a run, or has the same content as when it is read alone."""
    raw = bytearray(encode_single(7, key, value).seal(3))
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.sampled_from([0, 1, 2, 8, 128, 136, 144, 2**31, 2**32 - 1]) | st.integers(0, 200))
        place = data.draw(st.integers(0, len(raw) - 4)) // 4 * 4
        raw[place : place + 4] = number.to_bytes(4, "little")
    forged = reseal(bytes(raw), 3)
    if run := gather_single_pages([(3, forged)], 0):
        assert columns(run) == columns(Page(forged))


def test_damage_among_singles(open_store: OpenStore) -> None:
    """A damaged page among pages of one message is Corrupt, and the error names the message."""
    store = open_store(sync="os")
    log = new_log(store)
    put_singly(store, log, *[b"%d" % number for number in range(10)])
    [(base, raw)] = store.engine.pages.read(log, 4)
    store.engine.change(lambda changes: changes.put_page(log, base, raw[:-1] + b"!"), 10)
    with pytest.raises(Corrupt, match="at offset 4 of partition 0"):
        store.read(log, 0)
    assert values(store, log, 5) == [b"5", b"6", b"7", b"8", b"9"]


def test_a_page_that_is_missing_among_singles(open_store: OpenStore) -> None:
    """A missing page among pages of one message is Corrupt, and the error names the messages."""
    store = open_store(sync="os")
    log = new_log(store)
    put_singly(store, log, *[b"%d" % number for number in range(10)])
    store.engine.change(lambda changes: changes.drop_pages(log, 4, 6), 10)
    with pytest.raises(Corrupt, match="the messages 4 to 5 of partition 0 are missing"):
        store.read(log, 0)


def test_single_sends_in_all_forms(path: Path) -> None:
    """Single sends between batches are received alike as values, as messages and as Arrow."""
    pa = pytest.importorskip("pyarrow")
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic("orders")
        expected: list[tuple[bytes | None, bytes | None]] = []
        with mq.producer("orders") as out:
            for number in range(200):
                expected.append((b"k%d" % number if number % 3 else None, b"%d" % number if number % 5 else None))
                out.send(expected[-1][1], key=expected[-1][0])
                if number % 50 == 0:
                    expected += [(None, b"x" * number)] * 60
                    out.send_many([b"x" * number] * 60)
        with mq.consumer("orders", start=mqplug.EARLIEST, until=mqplug.LATEST) as orders:
            batches = list(orders.batches())
    keys = [key for batch in batches for key in batch.keys]
    assert list(zip(keys, [value for batch in batches for value in batch.values], strict=True)) == expected
    assert [(message.key, message.value) for batch in batches for message in batch] == expected
    table = pa.Table.from_batches([batch.to_arrow(["key", "value", "offset"]) for batch in batches])
    assert list(zip(*table.drop_columns("offset").to_pydict().values(), strict=True)) == expected
    assert table.column("offset").to_pylist() == list(range(len(expected)))
