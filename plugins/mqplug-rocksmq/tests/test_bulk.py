"""Batches that are staged as files and ingested in one step."""

from __future__ import annotations

import asyncio
import pickle
import threading
from itertools import chain, count, groupby
from pathlib import Path
from typing import Any

import pytest
from bulk_loads import read_all, records, stage_all, waiting
from store_seam import set_clock, stage_small_files

import mqplug
import mqplug.aio
from mqplug import Closed, Corrupt, MessageTooLarge, Record

TOPICS = {"orders": 4}


def test_once_and_for_all(mq: mqplug.Client, path: Path) -> None:
    """Readers see staged messages only after the ingest, and then like sent ones."""
    at = 1_700_000_000_000
    batch = [Record(b"v", b"k", [("a", b"1"), ("b", None)], at, 2), Record(None, partition=2), b"bare"]
    found = stage_all(mq, "orders", batch, [Record(b"w", partition=3)])
    assert (found.topic, found.messages) == ("orders", 4)
    assert read_all(mq, "orders") == {}
    done = mq.ingest(found, writer="job", number=0)
    assert (done.messages, done.repeated) == (4, False)
    first, second, *rest = (message for message in mq.read("orders") if message.value != b"bare")
    assert (first.value, first.key, list(first.headers)) == (b"v", b"k", [("a", b"1"), ("b", None)])
    assert (int(first.timestamp.timestamp() * 1000), first.partition) == (at, 2)
    assert (second.value, second.partition, [each.value for each in rest]) == (None, 2, [b"w"])
    assert waiting(path) == []


def test_where_it_lies(mq: mqplug.Client) -> None:
    """An ingest reports the first and last id in each log, as readers see them."""
    with mq.producer("orders") as out:
        out.send_many(records(10))
    done = mq.ingest(stage_all(mq, "orders", records(50, 100)), writer="job", number=0)
    ids: dict[mqplug.Log, list[mqplug.MessageId]] = {}
    for message in mq.read("orders"):
        if int(message.value or b"") >= 100:
            ids.setdefault(message.id.log, []).append(message.id)
    assert {log: (each.first_id, each.last_id) for log, each in done.placed.items()} == {
        log: (found[0], found[-1]) for log, found in ids.items()
    }


def test_the_same_partitions(mq: mqplug.Client) -> None:
    """A key's messages go to the same partition as with a producer, in order."""
    with mq.producer("orders") as out:
        out.send_many(records(200))
    sent = read_all(mq, "orders")
    mq.ingest(stage_all(mq, "orders", records(120), records(80, 120)), writer="job", number=0)
    assert read_all(mq, "orders") == {partition: found * 2 for partition, found in sent.items()}


def test_many_stages_at_once(mq: mqplug.Client) -> None:
    """Staged batches of several writers, pickled in transit, are ingested as one, in the given order."""
    several = [stage_all(mq, "orders", [Record(b"%d" % number, partition=0)]) for number in range(5)]
    passed_on = pickle.loads(pickle.dumps(several[::-1]))
    assert mq.ingest(passed_on, writer="job", number=0).messages == 5
    assert read_all(mq, "orders") == {0: [b"4", b"3", b"2", b"1", b"0"]}


def test_nothing_staged(mq: mqplug.Client) -> None:
    """A stage without messages is ingested too, and sets the mark."""
    empty = stage_all(mq, "orders", [])
    assert (mq.ingest(empty, writer="job", number=0).messages, empty.size) == (0, 0)
    assert mq.ingest(empty, writer="job", number=0).repeated


def test_a_number_once(mq: mqplug.Client, path: Path) -> None:
    """A batch that is written and ingested again appears once; the answer has its place."""
    done = mq.ingest(stage_all(mq, "orders", records(20)), writer="job", number=7)
    again = mq.ingest(stage_all(mq, "orders", records(20)), writer="job", number=7)
    assert (again.repeated, again.messages, again.placed) == (True, 20, done.placed)
    older = mq.ingest(stage_all(mq, "orders", records(5)), writer="job", number=3)
    assert (older.repeated, older.messages, older.placed) == (True, 0, {})
    assert waiting(path) == []
    assert not mq.ingest(stage_all(mq, "orders", records(20)), writer="other", number=7).repeated
    assert sum(map(len, read_all(mq, "orders").values())) == 40


def test_readers_wake(mq: mqplug.Client) -> None:
    """A waiting consumer gets ingested messages, and its group continues from them."""
    with mq.consumer("orders", group="g") as consumer:
        assert consumer.receive(0) is None
        mq.ingest(stage_all(mq, "orders", records(20)), writer="job", number=0)
        got = consumer.receive_many(20, 10)
        while len(got) < 20:
            got = [*got, *consumer.receive_many(20, 10)]
        for message in got:
            consumer.ack(message)
    assert sum(mq.lag("orders", group="g").values()) == 0


@pytest.mark.parametrize("sync", ["always", "os"])
def test_beside_everything_else(path: Path, sync: str) -> None:
    """Batches ingested during sends, trims and reads are stored among the sent messages, each whole and in order."""
    with mqplug.connect("rocksmq", path=str(path), sync=sync) as mq:
        mq.create_topic("orders")
        ended = threading.Event()
        sent = threading.Thread(target=_send_until, args=(mq, ended))
        sent.start()
        with mq.consumer("orders", start=mqplug.EARLIEST) as reader:
            found: list[bytes] = []
            for number in range(30):
                batch = [b"%d.%d" % (number, each) for each in range(50)]
                mq.ingest(stage_all(mq, "orders", batch), writer="job", number=number)
                found += [message.value or b"" for message in reader.receive_many(200, 0)]
                mq.trim("orders", reader.position("orders"))
            ended.set()
            sent.join(30)
            while more := reader.receive_many(1000, 0):
                found += [message.value or b"" for message in more]
        assert len(found) == mq.watermarks("orders")[0].high.coordinates[0]
        runs = [list(run) for batched, run in groupby(found, lambda value: b"." in value) if batched]
        assert list(chain(*runs)) == [b"%d.%d" % (number, each) for number in range(30) for each in range(50)]
        assert all(len(run) % 50 == 0 for run in runs)
        alone = [int(value) for value in found if b"." not in value]
        assert alone == list(range(len(alone)))


def _send_until(mq: mqplug.Client, ended: threading.Event) -> None:
    with mq.producer("orders") as out:
        for number in count():
            if ended.is_set():
                return
            out.send(b"%d" % number)


def test_arrow(mq: mqplug.Client) -> None:
    """Arrow batches are staged unchanged, to the partitions of their keys, beside other records."""
    pa = pytest.importorskip("pyarrow")
    names = [b"%d" % number for number in range(3000)]
    table = pa.table({"key": pa.array(names, pa.binary()), "value": pa.array([*names[:-1], None], pa.binary())})
    with mq.producer("orders") as out:
        out.send_many(table)
    sent = read_all(mq, "orders")
    with mq.stage("orders") as open_stage:
        open_stage.write(table.slice(0, 10))
        open_stage.write(records(5, 10))
        open_stage.write(table.slice(15))
        mq.ingest(open_stage.finish(), writer="job", number=0)
    assert read_all(mq, "orders") == {partition: found * 2 for partition, found in sent.items()}


@pytest.mark.parametrize("form", ["bytes", "records", "headers", "arrow"])
def test_the_time_of_a_message(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """A message without a timestamp gets the time at which it was written to the stage, not the time of its file."""
    values = [b"%d" % number for number in range(1500)]
    made: Any = values
    if form == "arrow":
        pa = pytest.importorskip("pyarrow")
        made = pa.table({"value": pa.array(values, pa.binary())})
    elif form != "bytes":
        made = [mqplug.Record(each, key=b"k", headers=[("h", b"v")] * (form == "headers")) for each in values]
    set_clock(monkeypatch, 1000)
    with mq.stage("orders") as open_stage:
        open_stage.write(made)
        set_clock(monkeypatch, 5000)
        open_stage.write([b"later"] * 1000)
        mq.ingest(open_stage.finish(), writer="job", number=0)
    found = {(message.value == b"later", round(message.timestamp.timestamp() * 1000)) for message in mq.read("orders")}
    assert found == {(False, 1000), (True, 5000)}


def test_a_part_of_a_large_array(mq: mqplug.Client) -> None:
    """A stage that gets a small part of a large Arrow array does not hold the whole array."""
    pa = pytest.importorskip("pyarrow")
    before = pa.total_allocated_bytes()
    large = pa.table({"value": pa.array([bytes(100)] * 100_000, pa.binary())})
    with mq.stage("orders") as open_stage:
        open_stage.write(large.slice(10, 1000))
        del large
        assert pa.total_allocated_bytes() - before < 1_000_000
        mq.ingest(open_stage.finish(), writer="job", number=0)
    assert list(read_all(mq, "orders").values()) == [[bytes(100)] * 1000]


def test_leaving_a_stage(mq: mqplug.Client, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the block before ``finish``, by an error or not, leaves no file; a finished stage refuses writes."""
    stage_small_files(monkeypatch, 1000)
    with pytest.raises(TypeError, match="str"), mq.stage("orders") as left:
        _write_two(left, path)
    with mq.stage("orders") as forgotten:
        forgotten.write(records(2000))
    assert waiting(path) == []
    for act in (lambda: left.write([b"x"]), left.finish):
        with pytest.raises(Closed, match="over"):
            act()


def _write_two(left: mqplug.Stage, path: Path) -> None:
    left.write(records(2000))
    assert waiting(path)
    left.write(["no bytes"])  # type: ignore[list-item]


def test_discard(mq: mqplug.Client, path: Path) -> None:
    """Discarded messages are removed and cannot be ingested; discarding again does nothing."""
    unwanted = stage_all(mq, "orders", records(10))
    assert len(waiting(path)) == 1
    mq.discard(unwanted)
    mq.discard([unwanted])
    assert waiting(path) == []
    with pytest.raises(Corrupt, match="is gone"):
        mq.ingest(unwanted, writer="job", number=0)
    assert not mq.ingest(stage_all(mq, "orders", records(10)), writer="job", number=0).repeated


def test_what_is_wrong_with_records(mq: mqplug.Client) -> None:
    """A stage refuses the same records as a producer, before writing any of the batch, and remains usable."""
    with mq.stage("orders") as open_stage:
        for error, wrong in (
            (TypeError, "text"),
            (ValueError, Record(b"x", partition=9)),
            (ValueError, Record(b"x", topic="other")),
            (MessageTooLarge, bytes(mq.capabilities.message_max_bytes + 1)),
        ):
            with pytest.raises(error):
                open_stage.write([b"good", wrong])  # type: ignore[list-item]
        open_stage.write([b"fine"])
        assert open_stage.finish().messages == 1


def test_after_close(path: Path) -> None:
    """A stage of a closed client refuses writes; finished batches outlive it."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        open_stage = mq.stage("orders")
        found = stage_all(mq, "orders", [b"kept"])
    with pytest.raises(Closed):
        open_stage.write([b"x"])
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.ingest(found, writer="job", number=0)
        assert read_all(mq, "orders") == {0: [b"kept"]}


def test_with_await(path: Path) -> None:
    """Stages are written, ingested and discarded in an event loop too."""

    async def story() -> None:
        async with mqplug.aio.connect("rocksmq", path=str(path)) as mq:
            await mq.create_topic("orders")
            async with mq.stage("orders") as open_stage:
                await open_stage.write([b"a", b"b"])
                found = await open_stage.finish()
            unwanted = await mq.stage("orders")
            await unwanted.write([b"c"])
            await unwanted.discard()
            assert (await mq.ingest(found, writer="job", number=0)).messages == 2
            await mq.discard(found)
            assert [message.value async for message in mq.read("orders")] == [b"a", b"b"]

    asyncio.run(story())
