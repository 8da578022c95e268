from __future__ import annotations

import sys
from pathlib import Path
from struct import unpack

import pytest
from store_seam import PageColumns

from mqplug import Corrupt
from mqplug_rocksmq._format import page
from mqplug_rocksmq._format.keys import page_key
from mqplug_rocksmq._format.page import Page, encode_page, encode_single
from mqplug_rocksmq._format.slices import Slice

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
