"""Arrow arrays produce the same pages as lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from store_seam import PageColumns, set_clock

import mqplug
from mqplug_rocksmq._format.page import page_bodies

pa = pytest.importorskip("pyarrow")

NOW = 1_800_000_000_000
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS = pa.list_(PAIR)

data = st.none() | st.binary(max_size=12)
record = st.tuples(
    data, data, st.lists(st.tuples(st.text(max_size=4), data), max_size=3), st.none() | st.integers(0, 10**12)
)


def arrays_of(records: list[tuple[Any, ...]], kind: Any) -> dict[str, Any]:
    """Return records as the core passes them: columns that no record has are absent, except for values."""
    values, keys, headers, times = (list(column) for column in zip(*records, strict=True))
    pairs = [[{"key": name, "value": value} for name, value in row] for row in headers]
    arrays = {
        "value": pa.array(values, kind), "key": pa.array(keys, kind), "headers": pa.array(pairs, HEADERS),
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
    st.sampled_from([pa.binary(), pa.large_binary()]),
)  # fmt: skip
def test_pages_are_the_same_bytes(records: Any, before: Any, behind: Any, kind: Any) -> None:
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
    bodies = arrow_page_bodies(arrays_of(records, pa.binary()), NOW)
    assert [body.seal(0) for body in bodies] == [body.seal(0) for body in page_bodies(columns_of(records))]
    assert sum(body.messages for body in bodies) == 2500
    assert len(bodies) > 2


@pytest.mark.parametrize("sync", ["always", "os"])
def test_arrow_is_stored_and_read_as_it_was(tmp_path: Path, sync: str) -> None:
    """A table is stored and read as the same Arrow columns, with ids in order."""
    table = pa.table(
        {
            "value": pa.array([None if each % 7 == 3 else b"%d" % each for each in range(3000)], pa.binary()),
            "key": pa.array([b"k" if each % 2 else None for each in range(3000)], pa.binary()),
            "headers": pa.array([[{"key": "n", "value": b"%d" % each}] * (each % 3) for each in range(3000)], HEADERS),
            "timestamp": pa.array(range(3000), pa.timestamp("us", tz="UTC")),
        }
    ).slice(10)
    with mqplug.connect("rocksmq", path=str(tmp_path / "mq"), sync=sync) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            ids = out.send_many(table)
        assert [ids[0].coordinates, ids[-1].coordinates, len(ids)] == [(0,), (2989,), 2990]
        assert [each.coordinates for each in ids[3:5]] == [(3,), (4,)]
        names = ["key", "value", "headers", "timestamp"]
        with mq.consumer("orders", start=mqplug.EARLIEST) as consumer:
            parts = []
            while sum(map(len, parts)) < 2990:
                parts.append(consumer.receive_many(1000, timeout=5).to_arrow(names))
    read = pa.Table.from_batches(parts)
    wanted = table.select(names)
    wanted = wanted.set_column(3, "timestamp", wanted["timestamp"].cast(pa.timestamp("ms", tz="UTC"), safe=False))
    assert read.to_pylist() == wanted.to_pylist()


def test_without_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message without a timestamp gets the time of its send."""
    set_clock(monkeypatch, NOW)
    with mqplug.connect("rocksmq", path=str(tmp_path / "mq")) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send_many(pa.table({"value": pa.array([b"1", b"2"]), "timestamp": pa.array([None, 5])}))
        with mq.consumer("orders", start=mqplug.EARLIEST) as consumer:
            assert list(consumer.receive_many(2, timeout=5).timestamps) == [NOW, 5]
