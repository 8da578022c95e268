"""Arrow tables are stored and read as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_seam import set_clock

import mqplug

pa = pytest.importorskip("pyarrow")

NOW = 1_800_000_000_000
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS = pa.list_(PAIR)


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
