"""The columns and their types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType, TimestampType

import mqplug
from mqplug import Batch, ConfigError, Log, MessageId, Position
from mqplug.spi import ListColumns
from mqplug_spark._columns import ReadColumns, all_columns, chosen_columns

HEADER = StructType([StructField("key", StringType(), nullable=False), StructField("value", BinaryType())])


def received(mq: mqplug.Client) -> mqplug.Batch:
    """Two messages: one with everything, one with only a time."""
    with mq.producer("orders") as out:
        out.send(b"v", key=b"k", headers=[("a", b"1"), ("a", None)], timestamp=1_700_000_000_123, partition=0)
        out.send(None, timestamp=1_700_000_000_124, partition=0)
    with mq.consumer("orders", start=mqplug.EARLIEST, partitions=[0]) as consumer:
        return consumer.receive_many(10, timeout=10).detached()


def test_the_columns_are_those_of_spark_sql_kafka_and_on_request_the_id() -> None:
    """The schema has the columns of spark-sql-kafka, followed by the id only on request."""
    known = "key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
    assert all_columns().spark_schema().simpleString() == f"struct<{known}>"
    assert all_columns(include_id=True).spark_schema().simpleString() == f"struct<{known},id:string>"


def test_headers_are_a_column_where_they_are_asked_for() -> None:
    """The option includeHeaders adds one column, before the id."""
    schema = all_columns(include_headers=True, include_id=True).spark_schema()
    assert schema.names[-2:] == ["headers", "id"]
    assert schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"


def test_a_batch_has_exactly_the_types_that_spark_wants(mq: mqplug.Client) -> None:
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
    made = all_columns(include_headers=True, include_id=True).record_batch(received(mq))
    assert str(made.schema) == str(pa.schema(wanted))  # `==` does not compare the names inside a list


def test_each_message_is_a_row(mq: mqplug.Client) -> None:
    """A row holds the parts of its message; a tombstone's value and a missing key are null."""
    batch = received(mq)
    rows = all_columns(include_headers=True, include_id=True).record_batch(batch).to_pylist()
    assert [(row["key"], row["value"], row["offset"]) for row in rows] == [(b"k", b"v", 0), (None, None, 1)]
    assert rows[0]["headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert rows[1]["headers"] is None
    assert rows[0]["timestamp"] == batch[0].timestamp
    assert [row["id"] for row in rows] == [str(message_id) for message_id in batch.ids]
    assert [row["timestampType"] for row in rows] == [None, None]


def test_a_schema_of_spark_chooses_columns() -> None:
    """The columns of a schema are the ones that are read."""
    wanted = StructType([StructField("id", StringType()), StructField("value", BinaryType())])
    assert chosen_columns(wanted) == ReadColumns(("id", "value"))


def test_offset_is_null_where_ids_have_several_parts() -> None:
    """A backend whose ids have several parts has no offsets, but ids."""
    log = Log("pulsar", "here", "orders", 0)
    batch = Batch(log, Position(log, (7, 1, 1)), 1, ListColumns([(7, 1, 0)], [b"v"], [None], [()], [0], [0]))
    (row,) = ReadColumns(("offset", "id")).record_batch(batch).to_pylist()
    assert row == {"offset": None, "id": str(MessageId(log, (7, 1, 0)))}


def test_columns_come_in_the_order_of_the_schema(mq: mqplug.Client) -> None:
    """A schema may name fewer columns, in any order."""
    made = ReadColumns(("timestampType", "offset", "value")).record_batch(received(mq))
    assert made.to_pydict() == {"timestampType": [None, None], "offset": [0, 1], "value": [b"v", None]}
    assert made.schema.types == [pa.int32(), pa.int64(), pa.binary()]


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
        chosen_columns(StructType([field]))


def test_a_time_that_spark_does_not_have_is_null(mq: mqplug.Client) -> None:
    """Another producer's nanoseconds, or a time before the year 1, do not prevent reading their batch."""
    times = [1_700_000_000_000_000_000, 1_700_000_000_000, -(10**15), -5, 253_402_300_799_999]
    batch = received(mq)
    columns = ListColumns([(each,) for each in range(5)], [b"v"] * 5, [None] * 5, [()] * 5, times, times)
    made = chosen_columns(StructType([StructField("timestamp", TimestampType())])).record_batch(
        mqplug.Batch(batch.log, batch.next_position, 5, columns)
    )
    found = made.column("timestamp").cast(pa.int64()).to_pylist()
    assert found == [None, times[1] * 1000, None, -5000, times[4] * 1000]


def test_batches_without_headers_and_rows_are_read(mq: mqplug.Client) -> None:
    """Missing headers are null; a batch without headers and a batch without messages can be read."""
    with mq.producer("orders") as out:
        out.send(b"v", partition=1)
    with mq.consumer("orders", start=mqplug.EARLIEST, partitions=[1]) as consumer:
        batch = consumer.receive_many(10, timeout=10)
    columns = all_columns(include_headers=True, include_id=True)
    assert columns.record_batch(batch).column("headers").to_pylist() == [None]
    assert columns.record_batch(batch[:0]).num_rows == 0


def test_who_set_a_timestamp_is_told_where_the_backend_knows() -> None:
    """The column timestampType comes from the batch: 0 for the producer, 1 for the log, null if unknown."""
    log = Log("kafka", "here", "orders", 0)

    class Typed(ListColumns):
        def arrow(self, names: Sequence[str]) -> dict[str, pa.Array]:
            return {name: pa.array([0, 1], pa.int32()) for name in names if name == "timestamp_type"}

    for kind, found in ((Typed, [0, 1]), (ListColumns, [None, None])):
        columns = kind([(0,), (1,)], [b"v"] * 2, [None] * 2, [()] * 2, [0] * 2, [0] * 2)
        made = ReadColumns(("timestampType",)).record_batch(Batch(log, Position(log, (2,)), 2, columns))
        assert made.column("timestampType").to_pylist() == found
