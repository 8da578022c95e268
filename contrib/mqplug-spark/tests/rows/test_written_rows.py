"""Conversion of Spark's batches to batches for sending, and errors for rows that cannot be sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from clusters import Cluster, over
from pyspark.sql.types import StructType
from spark_options import drop_client_of

import mqplug
from mqplug import InvalidRecord, MessageTooLarge
from mqplug_spark import MqplugDataSource

LARGEST = 1_000_000  # bytes of a message, as RocksMQ has it by default

TYPES = {
    "value": pa.binary(),
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "offset": pa.int64(),
}


def batch(**columns: list[Any]) -> pa.RecordBatch:
    """A batch as Spark passes it."""
    return pa.record_batch([pa.array(values, TYPES[name]) for name, values in columns.items()], names=list(columns))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store with two topics, in a process that runs task 3."""
    url = f"rocksmq://{tmp_path}"
    monkeypatch.setattr("pyspark.TaskContext.get", ThirdTask)
    with mqplug.connect(url) as client:
        for topic in ("orders", "audit"):
            client.create_topic(topic, partitions=2)
        yield Store(url, client)
        drop_client_of(url)


class ThirdTask:
    """The part of Spark's context that a task uses."""

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        """Return the task's number."""
        return 3


@attrs.frozen
class Store:
    """A store, and writes to it."""

    url: str
    client: mqplug.Client

    def write(self, *batches: pa.RecordBatch, topic: str | None = "orders") -> None:
        """Write the rows of one task."""
        schema = StructType().add("value", "binary").add("topic", "string")
        writer = MqplugDataSource({"url": self.url} | ({"topic": topic} if topic else {})).writer(schema, False)
        writer.commit([writer.write(iter(batches))])

    def values(self, topic: str = "orders") -> list[bytes | None]:
        """Return the values of a topic, in the order in which they are stored."""
        return [message.value for message in self.client.read(topic)]


def test_rows_of_one_topic_stay_together(store: Store) -> None:
    """All batches of a task are sent, also one with a null, and read-only columns and empty batches add nothing."""
    store.write(batch(value=[b"1", b"2"], offset=[7, 8]), batch(value=[]), batch(value=[None]))
    assert sorted(store.values(), key=str) == [None, b"1", b"2"]


def test_rows_are_split_by_topic(store: Store) -> None:
    """Rows of several topics go to their topics, in order."""
    rows = {"value": [b"0", b"1", b"2"], "topic": ["orders", "audit", "orders"], "partition": [1, 1, 1]}
    store.write(batch(**rows), topic=None)
    assert (store.values(), store.values("audit")) == ([b"0", b"2"], [b"1"])


def test_the_option_overrides_the_column(store: Store) -> None:
    """With the option topic, the column is ignored."""
    store.write(batch(value=[b"0", b"1"], topic=["audit", None], partition=[0, 0]))
    assert (store.values(), store.values("audit")) == ([b"0", b"1"], [])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_strings_are_sent_as_utf8(store: Store, kind: pa.DataType) -> None:
    """Values and keys that are strings become bytes."""
    texts = pa.array(["ä", None], pa.string()).cast(kind)
    store.write(pa.record_batch([texts, texts, pa.array([0, 0], pa.int32())], names=["value", "key", "partition"]))
    stored = store.client.read("orders")
    assert [(message.value, message.key) for message in stored] == [("ä".encode(), "ä".encode()), (None, None)]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"partition": [0, 1, 2]}, "'partition' of row 12 of task 3 is 2, but 'orders' has partitions 0 to 1"),
        ({"partition": [None, -1, 5]}, "'partition' of row 11 of task 3 is -1"),
        ({"timestamp": [0, -1, None]}, "'timestamp' of row 11 of task 3 is not between the years 1970 and 9999"),
        ({"timestamp": [0, 0, 253_402_300_800_000_000]}, "'timestamp' of row 12"),
        ({"headers": [None, [], [{"key": None, "value": b"secret"}]]}, "'headers' of row 12 of task 3 has a header wi"),
        ({"headers": [[None], [], []]}, "'headers' of row 10 of task 3 has a header without a name"),
    ],
)
def test_a_bad_row_is_named(store: Store, columns: dict[str, list[Any]], says: str) -> None:
    """The error names the column and the row, but shows none of its content."""
    rows = batch(value=[b"x"] * 10), batch(value=[b"secret", b"b", b"c"], **columns)
    with pytest.raises(InvalidRecord, match=says) as refused:
        store.write(*rows)
    assert "secret" not in str(refused.value)


def test_a_row_without_a_topic_is_named(store: Store) -> None:
    """A null topic is an error if no option names the topic."""
    with pytest.raises(InvalidRecord, match="'topic' of row 1 of task 3 is null"):
        store.write(batch(value=[b"1", b"2"], topic=["orders", None]), topic=None)


@pytest.mark.parametrize(
    ("value", "key"), [(b"x" * (LARGEST + 1), None), (b"x" * (LARGEST // 2), b"k" * (LARGEST // 2 + 1))]
)
def test_a_row_that_is_too_large_is_named(store: Store, value: bytes, key: bytes | None) -> None:
    """A message that is too large for the backend raises an error before any of its batch is sent."""
    with pytest.raises(MessageTooLarge, match=rf"'value' of row 1 of task 3 makes a message of {LARGEST + 1} bytes"):
        store.write(batch(value=[b"", value], key=[b"", key]))
    assert store.values() == []


def test_headers_count_for_the_size(store: Store) -> None:
    """Headers count for the size of a message; many small rows together may exceed it."""
    fits = [{"key": "h", "value": b"x" * (LARGEST // 2)}]
    store.write(batch(value=[b"v"] * 3, headers=[fits] * 3))
    assert store.values() == [b"v"] * 3
    with pytest.raises(MessageTooLarge, match="row 2 "):
        store.write(batch(value=[b"v"] * 3, headers=[fits, None, fits * 2]))


@pytest.mark.timeout(180)  # it may start the broker
@over("kafka")
def test_added_partitions_are_seen(cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that is added during a task is accepted: the backend is asked again."""

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(value=[b"1"], partition=[1])
        cluster.client.add_partitions(topic, 4)
        yield batch(value=[b"2"], partition=[3])

    monkeypatch.setattr("pyspark.TaskContext.get", ThirdTask)
    writer = MqplugDataSource({"url": cluster.url, "topic": topic}).writer(StructType().add("value", "binary"), False)
    writer.commit([writer.write(rows())])
    stored = sorted((message.partition, message.value) for message in cluster.client.read(topic))
    assert stored == [(1, b"1"), (3, b"2")]
