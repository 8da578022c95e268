"""Pages: their bytes, what is decoded from them, and runs of pages of one message."""

from __future__ import annotations

import sys
from pathlib import Path
from struct import unpack
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from rocksmq_stores import OpenStore, new_log, values
from store_seam import PageColumns, Store

import mqplug
from mqplug import Corrupt
from mqplug_rocksmq._format import page
from mqplug_rocksmq._format.keys import page_key
from mqplug_rocksmq._format.page import Page, encode_page, encode_single, page_bodies, reseal
from mqplug_rocksmq._format.slices import Slice, gather_single_pages

pytestmark = pytest.mark.python

GOLDEN = Path(__file__).parent / "golden"

COLUMNS = {
    "plain": (0, PageColumns([1700000000000, 1700000000001], [b"first", b"second"])),
    "keys": (7, PageColumns([1, 2, 3], [b"a", None, b""], [b"k", None, b"\xff\0"])),
    "absent": (1 << 40, PageColumns([5, 5], None, [b"k1", b"k2"])),
    "tombstones": (3, PageColumns([0], [None], [b"k"])),
    "headers": (
        10,
        PageColumns(
            [8, 9, 10],
            [b"x", b"y", b"z"],
            None,
            [(("trace", b"1"), ("trace", None), ("naïve", b"")), (), (("only", None),)],
        ),
    ),
    "header-names": (0, PageColumns([1], [b"v"], None, [(("a", None), ("b", None))])),
    "many": (100, PageColumns(list(range(20)), [None if n % 3 else bytes([n]) * n for n in range(20)])),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_golden_bytes(name: str) -> None:
    """A page has exactly the bytes that version 0.1 gave it."""
    before, columns = COLUMNS[name]
    assert encode_page(columns).seal(before) == (GOLDEN / f"{name}.page").read_bytes()


@pytest.mark.parametrize("name", COLUMNS)
def test_golden_columns(name: str) -> None:
    """A page of version 0.1 decodes to its original columns."""
    before, columns = COLUMNS[name]
    page = Page((GOLDEN / f"{name}.page").read_bytes())
    count = len(columns.times)
    assert (page.before, page.count) == (before, count)
    assert page.times() == columns.times
    assert page.values() == (columns.values or [None] * count)
    assert page.keys() == (columns.keys or [None] * count)
    assert page.headers() == columns.headers


@pytest.mark.parametrize("key", [None, b"", b"key-of-9", b"k" * 16])
@pytest.mark.parametrize("value", [None, b"", b"v", b"v" * 128])
def test_one_message_is_encoded_alike(key: bytes | None, value: bytes | None) -> None:
    """The fast path for a page of one message produces the same bytes as the general one."""
    assert encode_single(7, key, value).seal(3) == encode_page(PageColumns([7], [value], [key])).seal(3)


@pytest.mark.parametrize("loaded", [False, True])
def test_columns_are_the_same_with_and_without_pyarrow(loaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pyarrow loaded, large pages are decoded by it; the values are the same."""
    pytest.importorskip("pyarrow")
    if not loaded:
        monkeypatch.delitem(sys.modules, "pyarrow")
    values = [None if n % 7 == 0 else bytes([n]) * n for n in range(200)]
    page = Page(encode_page(PageColumns([1] * 200, values, [b"key"] * 200)).seal(0))
    assert (page.values(), page.keys()) == (values, [b"key"] * 200)


@pytest.mark.parametrize("name", COLUMNS)
def test_arrow_agrees(name: str) -> None:
    """The record batch has the content of the lists, and shares the page's memory."""
    pytest.importorskip("pyarrow")
    page = Page((GOLDEN / f"{name}.page").read_bytes())
    batch = page.to_arrow()
    batch.validate(full=True)
    assert batch.column("value").to_pylist() == page.values()
    assert batch.column("key").to_pylist() == page.keys()
    assert batch.column("timestamp").cast("int64").to_pylist() == page.times()
    headers = [tuple((h["key"], h["value"]) for h in row) for row in batch.column("headers").to_pylist()]
    assert headers == (page.headers() or [()] * page.count)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_flipped_bit_is_noticed(name: str) -> None:
    """No single changed bit of a page goes unnoticed."""
    raw = (GOLDEN / f"{name}.page").read_bytes()
    for index in range(len(raw)):
        damaged = bytearray(raw)
        damaged[index] ^= 1 << index % 8
        with pytest.raises(Corrupt):
            Page(bytes(damaged))


@pytest.mark.parametrize("length", [0, 1, 127, 128, 130])
def test_truncated(length: int) -> None:
    """A truncated page is refused."""
    raw = encode_page(COLUMNS["plain"][1]).seal(0)
    with pytest.raises(Corrupt):
        Page(raw[:length])


def test_buffers_are_aligned() -> None:
    """Every buffer starts at a multiple of eight bytes, as Arrow requires."""
    body = encode_page(COLUMNS["headers"][1])
    assert {start % 8 for start in unpack("<26I", body.directory)[::2]} == {0}


def test_pages_of_a_large_send_are_encoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is encoded when it is needed, so that it can take the memory of the one before; each pass encodes anew."""
    encoded: list[PageColumns] = []

    def encode(columns: PageColumns) -> page.PageBody:
        encoded.append(columns)
        return encode_page(columns)

    monkeypatch.setattr(page, "encode_page", encode)
    bodies = page.page_bodies(PageColumns([5] * 2500, [b"%d" % number for number in range(2500)]))
    assert not encoded
    first = next(iter(bodies))
    assert (len(encoded), first.messages) == (1, 1000)
    assert [body.messages for body in bodies] == [1000, 1000, 500]
    assert next(iter(bodies)).seal(0) == first.seal(0) == first.copied().seal(0)


def test_cut() -> None:
    """Columns are cut together, and an absent column stays absent."""
    before = PageColumns([1, 2, 3], [b"a", b"b", b"c"], None)
    assert before.cut(slice(1, 3)) == PageColumns([2, 3], [b"b", b"c"], None)


def test_a_page_from_elsewhere_whose_offsets_lead_out_of_it() -> None:
    """Offsets that point outside the page are Corrupt, as lists and as Arrow, even with a valid checksum."""
    pytest.importorskip("pyarrow")
    good = encode_page(PageColumns([1] * 100, [b"value"] * 100))
    directory = unpack("<26I", good.directory)
    where = directory[2 * 5] - directory[0]
    for offset in (-5, 1 << 30):
        data = bytearray(b"".join(good.parts))
        data[where + 40 : where + 44] = offset.to_bytes(4, "little", signed=True)
        page = Page(good._replace(parts=[bytes(data)]).seal(0))
        with pytest.raises(Corrupt):
            page.to_arrow()
        with pytest.raises(Corrupt):
            page.values()


@pytest.mark.parametrize("times", [[5] * 3, [5, 6, 5], [-1, -1], [0], [2**53] * 40, [2**62, -(2**62)]])
def test_timestamps_as_arrow(times: list[int]) -> None:
    """A batch has the page's milliseconds, whatever they are."""
    pa = pytest.importorskip("pyarrow")
    from mqplug_rocksmq._format.from_pages_to_arrow import joined_columns

    page = Page(encode_page(PageColumns(times, [b"x"] * len(times))).seal(0))
    column = joined_columns([Slice(0, page, 0, page.count)], ["timestamp"])["timestamp"]
    column.validate(full=True)
    assert column.type == pa.timestamp("ms", tz="UTC")
    assert column.cast(pa.int64()).to_pylist() == times


def test_page_keys_sort() -> None:
    """Keys sort by segment, then by offset."""
    places = [(0, 0), (0, 255), (0, 256), (0, 1 << 40), (1, 0), (256, 3)]
    assert sorted(page_key(*place) for place in places) == [page_key(*place) for place in places]


@pytest.mark.parametrize(("second", "offsets"), [(3, [1, 2, 3, 4]), (7, [1, 2, 7, 8])])
def test_offsets_as_arrow(second: int, offsets: list[int]) -> None:
    """The messages of several pages have their own offsets, also after a gap."""
    pytest.importorskip("pyarrow")
    from mqplug_rocksmq._format.from_pages_to_arrow import joined_columns

    page = Page(encode_page(PageColumns([1] * 3, [b"x"] * 3)).seal(0))
    parts = [Slice(0, page, 1, 3), Slice(second, page, 0, 2)]
    columns = joined_columns(parts, ["offset", "value"])
    assert columns["offset"].to_pylist() == offsets
    assert len(columns["value"]) == 4


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
def test_a_truncated_page_ends_a_run(length: int) -> None:
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


NOW = 1_800_000_000_000

data = st.none() | st.binary(max_size=12)
record = st.tuples(
    data, data, st.lists(st.tuples(st.text(max_size=4), data), max_size=3), st.none() | st.integers(0, 10**12)
)


def arrays_of(records: list[tuple[Any, ...]], kind: str) -> dict[str, Any]:
    """Return records as the core passes them: columns that no record has are absent, except for values."""
    pa = pytest.importorskip("pyarrow")
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    values, keys, headers, times = (list(column) for column in zip(*records, strict=True))
    pairs = [[{"key": name, "value": value} for name, value in row] for row in headers]
    arrays = {
        "value": pa.array(values, kind), "key": pa.array(keys, kind), "headers": pa.array(pairs, pa.list_(pair)),
        "timestamp": pa.array(times, pa.timestamp("ms", tz="UTC")),
    }  # fmt: skip
    said = {"value": True, "key": any(key is not None for key in keys), "headers": any(headers)}
    return {name: array for name, array in arrays.items() if said.get(name, set(times) != {None})}


def columns_of(records: list[tuple[Any, ...]]) -> PageColumns:
    """Return the same records as lists."""
    values, keys, headers, times = (list(column) for column in zip(*records, strict=True))
    return PageColumns([NOW if each is None else each for each in times], values, keys, headers)


@settings(deadline=None)  # the machine may be busy
@given(
    st.lists(record, min_size=1, max_size=30), st.lists(record, max_size=9), st.lists(record, max_size=2),
    st.sampled_from(["binary", "large_binary"]),
)  # fmt: skip
def test_pages_are_the_same_bytes(records: Any, before: Any, behind: Any, kind: str) -> None:
    """A page from Arrow has the bytes of one from lists, even from a slice of a larger array."""
    from mqplug_rocksmq._format.from_arrow_to_pages import arrow_page_bodies

    arrays = {
        name: array[len(before) : len(before) + len(records)]
        for name, array in arrays_of([*before, *records, *behind], kind).items()
    }
    assert [body.seal(7) for body in arrow_page_bodies(arrays, NOW)] == [
        body.seal(7) for body in page_bodies(columns_of(records))
    ]
    assert [body.newest for body in arrow_page_bodies(arrays, NOW)] == [max(columns_of(records).times)]


def test_many_pages() -> None:
    """Arrow arrays that need several pages are cut where lists are cut."""
    from mqplug_rocksmq._format.from_arrow_to_pages import arrow_page_bodies

    records = [(bytes([each % 256]) * 700, b"key", [("n", b"%d" % each)], each) for each in range(2500)]
    bodies = arrow_page_bodies(arrays_of(records, "binary"), NOW)
    assert [body.seal(0) for body in bodies] == [body.seal(0) for body in page_bodies(columns_of(records))]
    assert sum(body.messages for body in bodies) == 2500
    assert len(bodies) > 2
