"""The columns of a read and their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from clusters import Cluster, over
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType
from reads import reader_of, rows_of

from mqplug import Batch, ConfigError, Log, MessageId, Position
from mqplug.spi import ListColumns
from mqplug_spark import MqplugDataSource

ALL = {"includeHeaders": "true", "includeId": "true"}
HEADER = StructType([StructField("key", StringType(), nullable=False), StructField("value", BinaryType())])


def schema(**options: str) -> StructType:
    """Return the schema of a read with these options."""
    made = MqplugDataSource({"url": "kafka://localhost", "subscribe": "orders", **options}).schema()
    assert isinstance(made, StructType)
    return made


def fields(*names: str) -> StructType:
    """Return a schema of some of the columns."""
    return StructType([schema(**ALL)[name] for name in names])


def send_two(cluster: Cluster, topic: str) -> None:
    """Send two messages: one with everything, one with only a time."""
    with cluster.client.producer(topic) as out:
        out.send(b"v", key=b"k", headers=[("a", b"1"), ("a", None)], timestamp=1_700_000_000_123, partition=0)
        out.send(None, timestamp=1_700_000_000_124, partition=0)


def read(cluster: Cluster, topic: str, columns: StructType) -> list[dict[str, Any]]:
    """Return the rows of a topic, with these columns."""
    reader = reader_of({"url": cluster.url, "subscribe": topic}, columns)
    return rows_of(reader, reader.partitions())


@pytest.fixture
def read_of(cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that reads columns as if the backend had returned this batch."""
    with cluster.client.producer(topic) as out:
        out.send(b"x")
    to_arrow = Batch.to_arrow

    def rows(batch: Batch, *names: str) -> list[dict[str, Any]]:
        with monkeypatch.context() as patch:
            patch.setattr(Batch, "to_arrow", lambda _, wanted: to_arrow(batch, wanted))
            return read(cluster, topic, fields(*names))

    return rows


def test_the_columns_are_those_of_spark_sql_kafka_and_on_request_the_id() -> None:
    """The schema has the columns of spark-sql-kafka, followed by the id only on request."""
    known = "key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
    assert schema().simpleString() == f"struct<{known}>"
    assert schema(includeId="true").simpleString() == f"struct<{known},id:string>"


def test_headers_are_a_column_where_they_are_asked_for() -> None:
    """The option includeHeaders adds one column, before the id."""
    made = schema(**ALL)
    assert made.names[-2:] == ["headers", "id"]
    assert made["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"


@over("rocksmq")
def test_a_batch_has_exactly_the_types_that_spark_wants(cluster: Cluster, topic: str) -> None:
    """The Arrow types equal those of the Spark types, down to the name of a list's element and the time zone."""
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    wanted = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", header)),
        "id": pa.string(),
    }
    send_two(cluster, topic)
    reader: Any = reader_of({"url": cluster.url, "subscribe": topic}, schema(**ALL))
    (made,) = reader.read(reader.partitions()[0])
    assert str(made.schema) == str(pa.schema(wanted))  # `==` does not compare the names inside a list


@over("rocksmq")
def test_each_message_is_a_row(cluster: Cluster, topic: str) -> None:
    """A row holds the parts of its message; a tombstone's value and a missing key are null."""
    send_two(cluster, topic)
    rows, messages = read(cluster, topic, schema(**ALL)), list(cluster.client.read(topic))
    assert [(row["key"], row["value"], row["offset"]) for row in rows] == [(b"k", b"v", 0), (None, None, 1)]
    assert rows[0]["headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert rows[1]["headers"] is None
    assert [row["timestamp"] for row in rows] == [message.timestamp for message in messages]
    assert [row["id"] for row in rows] == [str(message.id) for message in messages]


def test_offset_is_null_where_ids_have_several_parts(read_of: Callable[..., list[dict[str, Any]]]) -> None:
    """A backend whose ids have several parts has no offsets, but ids."""
    log = Log("pulsar", "here", "orders", 0)
    batch = Batch(log, Position(log, (7, 1, 1)), 1, ListColumns([(7, 1, 0)], [b"v"], [None], [()], [0], [0]))
    assert read_of(batch, "offset", "id") == [{"offset": None, "id": str(MessageId(log, (7, 1, 0)))}]


@over("rocksmq")
def test_columns_come_in_the_order_of_the_schema(cluster: Cluster, topic: str) -> None:
    """A schema may name fewer columns, in any order."""
    send_two(cluster, topic)
    first, second = read(cluster, topic, fields("timestampType", "offset", "value"))
    assert list(first) == ["timestampType", "offset", "value"]
    assert [(row["offset"], row["value"]) for row in (first, second)] == [(0, b"v"), (1, None)]


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (StructField("payload", BinaryType()), "unknown column 'payload'.*Choose from key, value, topic"),
        (StructField("Value", BinaryType()), "unknown column 'Value'"),
        (StructField("value", StringType()), "'value' must be binary, not string.*cast it in Spark"),
        (StructField("value", BinaryType(), nullable=False), "'value' and its fields must be null.*Remove NOT NULL"),
        (StructField("headers", ArrayType(HEADER)), "'headers' and its fields must be nullable"),
    ],
)
def test_a_column_that_is_not_there_is_named(field: StructField, says: str) -> None:
    """A schema with an unknown column or a wrong type raises ConfigError, which says what is expected."""
    with pytest.raises(ConfigError, match=says):
        reader_of({"url": "kafka://localhost", "subscribe": "orders"}, StructType([field]))


def batch_of(times: Sequence[int], kind: type[ListColumns] = ListColumns) -> Batch:
    """Return a batch of messages with these timestamps."""
    log, count = Log("kafka", "here", "orders", 0), len(times)
    offsets = [(number,) for number in range(count)]
    columns = kind(offsets, [b"v"] * count, [None] * count, [()] * count, times, times)
    return Batch(log, Position(log, (count,)), count, columns)


def test_a_time_that_spark_does_not_have_is_null(read_of: Callable[..., list[dict[str, Any]]]) -> None:
    """Another producer's nanoseconds, or a time before the year 1, do not prevent reading their batch."""
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    times = [1_700_000_000_000_000_000, 1_700_000_000_000, -(10**15), -5, 253_402_300_799_999]
    found = [row["timestamp"] for row in read_of(batch_of(times), "timestamp")]
    expected = [None if number in {0, 2} else begin + timedelta(milliseconds=each) for number, each in enumerate(times)]
    assert found == expected


def test_batches_without_headers_and_rows_are_read(read_of: Callable[..., list[dict[str, Any]]]) -> None:
    """Missing headers are null; a batch without headers and a batch without messages can be read."""
    batch = batch_of([5])
    (row,) = read_of(batch, *schema(**ALL).names)
    assert row["headers"] is None
    assert read_of(batch[:0], *schema(**ALL).names) == []


def test_who_set_a_timestamp_is_told_where_the_backend_knows(read_of: Callable[..., list[dict[str, Any]]]) -> None:
    """The column timestampType comes from the batch: 0 for the producer, 1 for the log, null if unknown."""

    class Typed(ListColumns):
        def arrow(self, names: Sequence[str]) -> dict[str, pa.Array]:
            return {name: pa.array([0, 1], pa.int32()) for name in names if name == "timestamp_type"}

    for kind, found in ((Typed, [0, 1]), (ListColumns, [None, None])):
        rows = read_of(batch_of([0, 0], kind), "timestampType")
        assert [row["timestampType"] for row in rows] == found
