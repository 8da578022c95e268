"""Sending Arrow data: the meaning of each column, and refused data."""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest
from held_backend import HeldRuns, held_client

import mqplug
from mqplug import aio

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIME = pa.timestamp("us", tz="UTC")
NOON = 1_700_000_000_000


class Foreign:
    """Arrow data of another library, with only the C interface."""

    def __init__(self, data: Any, *, stream: bool) -> None:
        name = "__arrow_c_stream__" if stream else "__arrow_c_array__"
        setattr(type(self), name, lambda self, requested_schema=None: getattr(data, name)(requested_schema))


class ForeignStream(Foreign):
    """A table."""


class ForeignArray(Foreign):
    """A record batch."""


def full() -> pa.RecordBatch:
    """Return records with all fields, and with none."""
    return pa.record_batch(
        {
            "value": pa.array([b"one", None, b"", b"four"], pa.binary()),
            "key": pa.array([b"k", None, b"", b"k"], pa.binary()),
            "headers": pa.array(
                [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], [], None, [{"key": "ü", "value": b""}]],
                HEADERS,
            ),
            "timestamp": pa.array([NOON * 1000, NOON * 1000 + 1999, None, NOON * 1000], TIME),
        }
    )


def rows(batch: mqplug.Batch) -> list[tuple[Any, ...]]:
    """Return what was received, except for times that the log gave."""
    times = [each if each < NOON + 10 else None for each in batch.timestamps]
    return list(zip(batch.values, batch.keys, batch.headers, times, strict=True))


FULL = [
    (b"one", b"k", (("a", b"1"), ("a", None)), NOON),
    (None, None, (), NOON + 1),
    (b"", b"", (), None),
    (b"four", b"k", (("ü", b""),), NOON),
]


@pytest.fixture
def topic(mq: mqplug.Client) -> str:
    """A topic of one partition."""
    mq.create_topic("orders")
    return "orders"


def received(mq: mqplug.Client, topic: str = "orders") -> list[tuple[Any, ...]]:
    """Return all stored messages."""
    with mq.consumer(topic, start=mqplug.EARLIEST) as consumer:
        return rows(consumer.receive_many(1000, timeout=1))


def forms() -> dict[str, Any]:
    """Return the same data in the forms of different libraries."""
    table = pa.table(full())
    padded = pa.concat_tables([table.slice(3, 1), table, table.slice(0, 1)])
    return {
        "batch": full(),
        "table": table,
        "chunks": pa.concat_tables([table.slice(0, 1), table.slice(1, 3)]),
        "slice": padded.combine_chunks().slice(1, 4),
        "foreign array": ForeignArray(full(), stream=False),
        "foreign stream": ForeignStream(table, stream=True),
    }


@pytest.mark.parametrize("form", forms())
def test_arrow_is_sent_as_records_are(mq: mqplug.Client, topic: str, form: str) -> None:
    """All fields of Arrow data arrive, whether from a batch, a table, a slice, or another library."""
    with mq.producer(topic) as out:
        ids = out.send_many(forms()[form])
    assert [each.coordinates for each in ids] == [(0,), (1,), (2,), (3,)]
    assert received(mq) == FULL


TYPES = {
    "large": (pa.large_binary(), pa.large_string(), pa.large_binary()),
    "views": (pa.binary_view(), pa.string_view(), pa.binary_view()),
    "dictionaries": (pa.dictionary(pa.int32(), pa.binary()), pa.string(), pa.binary()),
}


@pytest.mark.parametrize("kind", TYPES)
def test_types_of_other_libraries(mq: mqplug.Client, topic: str, kind: str) -> None:
    """Large types, views and dictionaries work like the plain ones."""
    plain, name, value = TYPES[kind]
    table = pa.table(full())
    headers = pa.large_list(pa.struct([("key", name), ("value", value)]))
    pairs = table["headers"].to_pylist()
    table = table.set_column(2, "headers", pa.array(pairs, headers) if kind != "views" else table["headers"])
    for number, column in enumerate(("value", "key")):
        items = table[column].to_pylist()  # not cast: pyarrow 18 crashes on a cast to views
        array = pa.array(items).dictionary_encode() if kind == "dictionaries" else pa.array(items, plain)
        table = table.set_column(number, column, array)
    with mq.producer(topic) as out:
        out.send_many(table)
    assert received(mq) == FULL


def test_headers_as_a_map(mq: mqplug.Client, topic: str) -> None:
    """Headers may be a map."""
    headers = pa.array([[("a", b"1")], []], pa.map_(pa.string(), pa.binary()))
    with mq.producer(topic) as out:
        out.send_many(pa.table({"value": pa.array([b"1", b"2"]), "headers": headers}))
    assert [each[2] for each in received(mq)] == [(("a", b"1"),), ()]


def test_times_may_be_whole_milliseconds(mq: mqplug.Client, topic: str) -> None:
    """A timestamp is a time with a zone, of any unit, or whole milliseconds since 1970."""
    seconds = pa.array([NOON // 1000], pa.timestamp("s", tz="Europe/Berlin"))
    with mq.producer(topic) as out:
        for times in (pa.array([NOON]), seconds, pa.array([NOON * 10**6], pa.timestamp("ns", tz="UTC"))):
            out.send_many(pa.table({"value": pa.array([b"v"]), "timestamp": times}))
    assert [each[3] for each in received(mq)] == [NOON] * 3


def test_what_was_read_can_be_sent_on(mq: mqplug.Client, topic: str) -> None:
    """A producer without a topic takes to_arrow() as it is, including topic and partition."""
    mq.create_topic("wide", partitions=3)
    with mq.producer("wide") as out:
        out.send_many([mqplug.Record(b"%d" % number, partition=2) for number in range(5)])
    mq.create_topic("copy", partitions=3)
    with mq.consumer("wide", start=mqplug.EARLIEST) as consumer, mq.producer() as out:
        read = consumer.receive_many(5, timeout=1)
        columns = read.to_arrow().set_column(2, "topic", pa.array(["copy"] * 5))
        ids = out.send_many(columns.append_column("timestamp_type", read.to_arrow(["timestamp_type"]).column(0)))
    assert {each.log for each in ids} == {mq.partitions("copy")[2]}


def test_another_topic_is_refused(mq: mqplug.Client, topic: str) -> None:
    """A producer of one topic refuses data that names another, and says what to do."""
    table = pa.table({"value": pa.array([b"1"]), "topic": pa.array(["elsewhere"])})
    with mq.producer(topic) as out, pytest.raises(ValueError, match=r"names 'elsewhere', but this producer sends to"):
        out.send_many(table)
    assert received(mq) == []


def test_keys_and_partitions_spread(mq: mqplug.Client) -> None:
    """Arrow data goes to the same partitions as records with the same keys and partitions; ids come in its order."""
    mq.create_topic("wide", partitions=4)
    keys, wanted = [b"%d" % (each % 7) for each in range(40)], [None if each % 3 else each % 4 for each in range(40)]
    table = pa.table({"value": pa.array(keys), "key": pa.array(keys), "partition": pa.array(wanted, pa.int16())})
    records = [mqplug.Record(key, key=key, partition=where) for key, where in zip(keys, wanted, strict=True)]
    with mq.producer("wide") as out:
        assert [each.log for each in out.send_many(table)] == [each.log for each in out.send_many(records)]
    for partition in range(4):
        stored = [each.value for each in mq.read("wide", partitions=[partition])]
        assert stored[: len(stored) // 2] == stored[len(stored) // 2 :]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_a_column_of_keys_is_hashed_as_each_key_is(mq: mqplug.Client, kind: pa.DataType) -> None:
    """A whole column of keys of any lengths goes to the partitions to which records with these keys go."""
    keys = [os.urandom(length) for length in range(18) for _ in range(200)]
    random.shuffle(keys)
    column = pa.array([b"cut off", *keys], kind)[1:]
    for partitions in (2, 7, 1000):
        mq.create_topic(f"of-{partitions}", partitions=partitions)
        with mq.producer(f"of-{partitions}", partitioner="murmur2") as out:
            together = out.send_many(pa.table({"value": column, "key": column}))
            single = out.send_many([mqplug.Record(b"", key=key) for key in keys])
        assert [each.log for each in together] == [each.log for each in single]


@pytest.mark.parametrize("partitioner", ["murmur2", "round_robin", "crc32"])
def test_many_keys_go_where_single_ones_go(mq: mqplug.Client, partitioner: Any) -> None:
    """Many records with keys in Arrow data go to the partitions of single records with these keys."""
    mq.create_topic("many", partitions=5)
    keys = [b"key-%d" % number for number in range(1000)]
    with mq.producer("many", partitioner=partitioner) as out:
        together = out.send_many(pa.table({"value": pa.array(keys), "key": pa.array(keys)}))
        single = out.send_many([mqplug.Record(key, key=key) for key in keys])
    assert [each.log for each in together] == [each.log for each in single]


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"value": pa.array(["text"])}, TypeError, "'value' must be binary, not string; encode"),
        ({"value": pa.array([b"v"]), "key": pa.array([1])}, TypeError, "'key' must be binary, not int64"),
        ({"value": pa.array([b"v"]), "topic": pa.array([1])}, TypeError, "'topic' must be strings, not int64"),
        ({"value": pa.array([b"v"]), "partition": pa.array([0.0])}, TypeError, "'partition' must be whole numbers"),
        ({"value": pa.array([b"v"]), "timestamp": pa.array(["now"])}, TypeError, "'timestamp' must be timestamps"),
        (
            {"value": pa.array([b"v"]), "timestamp": pa.array([0], pa.timestamp("s"))},
            ValueError,
            "'timestamp' has no time zone",
        ),
        ({"value": pa.array([b"v"]), "timestamp": pa.array([-1])}, ValueError, "between the years 1970 and 9999"),
        (
            {"value": pa.array([b"v"]), "timestamp": pa.array([1 << 62], pa.timestamp("s", tz="UTC"))},
            ValueError,
            "between the years 1970 and 9999",
        ),
        ({"value": pa.array([b"v"]), "headers": pa.array([b"h"])}, TypeError, "'headers' must be lists of structs"),
        ({"value": pa.array([b"v"]), "headers": pa.array([[{"key": "a"}]])}, TypeError, "'headers' must be lists"),
        (
            {"value": pa.array([b"v"]), "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)},
            TypeError,
            "a header without a name",
        ),
        ({"value": pa.array([b"v"]), "valeu": pa.array([b"v"])}, ValueError, "unknown column 'valeu'"),
        ({"key": pa.array([b"v"])}, ValueError, "exactly one 'value' column"),
        ({"value": pa.array([b"v"]), "partition": pa.array([7])}, ValueError, "no partition 7"),
    ],
)
def test_wrong_columns(
    mq: mqplug.Client, topic: str, columns: dict[str, Any], error: type[Exception], words: str
) -> None:
    """A column that cannot be sent is reported with its type, and nothing is sent."""
    with mq.producer(topic) as out, pytest.raises(error, match=words):
        out.send_many(pa.table(columns))
    assert received(mq) == []


def test_one_column_is_no_table(mq: mqplug.Client, topic: str) -> None:
    """An array by itself raises TypeError, which says what to send."""
    with mq.producer(topic) as out, pytest.raises(TypeError, match="send a record batch or a table"):
        out.send_many(pa.array([b"1"]))


def test_text_that_is_no_text(mq: mqplug.Client, topic: str) -> None:
    """Invalid UTF-8 in a text column is refused before anything is stored."""
    names = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xff")]
    )
    pairs = pa.StructArray.from_arrays([names, pa.array([b""])], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pairs)
    with mq.producer(topic) as out, pytest.raises(ValueError, match="column 'headers' is not valid"):
        out.send_many(pa.table({"value": pa.array([b"v"]), "headers": headers}))


def test_nothing_at_all(mq: mqplug.Client, topic: str) -> None:
    """An empty table has no ids."""
    with mq.producer(topic) as out:
        assert out.send_many(full().slice(0, 0)) == []


def test_a_table_larger_than_a_batch(mq: mqplug.Client, topic: str) -> None:
    """A table is sent in parts if the backend takes fewer messages at once."""
    table = pa.table({"value": pa.array([b"%d" % each for each in range(25_000)])})
    with mq.producer(topic) as out:
        ids = out.send_many(table)
    assert [each.coordinates[0] for each in ids] == list(range(25_000))


def test_a_message_that_is_too_large() -> None:
    """A row that is too large is refused, and the others are stored."""
    with mqplug.connect("memory://arrow-large?like=kafka") as mq:
        mq.create_topic("orders")
        table = pa.table({"value": pa.array([b"1", b"x" * 2_000_000, b"3"]), "key": pa.array([None, b"k", None])})
        with mq.producer("orders") as out, pytest.raises(mqplug.SendFailed) as caught:
            out.send_many(table)
        assert [type(each) for each in caught.value.results] == [
            mqplug.MessageId,
            mqplug.MessageTooLarge,
            mqplug.MessageId,
        ]


def test_columns_that_are_not_asked_for_stay_arrow() -> None:
    """A driver may take the arrays as they came; computing sizes needs no lists either."""
    with held_client(HeldRuns()) as (mq, driver), mq.producer("orders") as out:
        with pytest.raises(mqplug.SendFailed):
            out.send_many(full().slice(1, 3), timeout=0)
        [run] = driver.units
        arrays = run.arrow(("value", "key", "headers", "timestamp"))
        assert arrays["value"].to_pylist() == run.values == [None, b"", b"four"]
        assert arrays["timestamp"].cast("int64").to_pylist() == run.timestamps == [NOON + 1, None, NOON]
        assert list(run.ends) == [0, 0, 7]
        assert run.size == 7
        run.stored(mq.partitions("orders")[0], [(0,), (1,), (2,)])


async def _send(table: pa.Table) -> list[bytes | None]:
    async with aio.connect("memory://arrow-aio") as mq:
        await mq.create_topic("orders")
        async with mq.producer("orders") as out:
            await out.send_many(table)
        return [message.value async for message in mq.read("orders", start=mqplug.EARLIEST)]


def test_asyncio_takes_arrow() -> None:
    """The asyncio producer takes the same data."""
    from asyncio import run

    assert run(_send(pa.table(full()))) == [b"one", None, b"", b"four"]
