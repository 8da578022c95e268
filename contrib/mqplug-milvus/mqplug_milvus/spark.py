"""A collection's history as a Spark table, in batches and in streams: ``pip install 'mqplug-milvus[spark]'``.

The messages may come from any source whose column ``value`` holds their bytes, such as ``format("mqplug")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType as SparkType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mqplug_milvus._format.decoding import decode_bytes
from mqplug_milvus._format.events import CollectionCreated, Delete, Event, Insert, PartitionDropped
from mqplug_milvus._format.schema import DataType, Field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INSERT, DELETE, PARTITION_DROPPED = "insert", "delete", "partition dropped"
ROWS_AT_ONCE: Final = 10_000

_OWN: Final[dict[str, tuple[SparkType, pa.DataType]]] = {
    "$event": (StringType(), pa.string()),
    "$time": (LongType(), pa.int64()),
    "$at": (TimestampType(), pa.timestamp("us", tz="UTC")),
    "$partition_id": (LongType(), pa.int64()),
}
"""The columns before those of the collection. No field of Milvus has a name that begins with ``$``."""

_TYPES: Final[dict[DataType, tuple[SparkType, pa.DataType]]] = {
    DataType.BOOL: (BooleanType(), pa.bool_()),
    DataType.INT8: (ByteType(), pa.int8()),
    DataType.INT16: (ShortType(), pa.int16()),
    DataType.INT32: (IntegerType(), pa.int32()),
    DataType.INT64: (LongType(), pa.int64()),
    DataType.FLOAT: (FloatType(), pa.float32()),
    DataType.DOUBLE: (DoubleType(), pa.float64()),
    DataType.STRING: (StringType(), pa.string()),
    DataType.VARCHAR: (StringType(), pa.string()),
    DataType.JSON: (StringType(), pa.string()),
    DataType.FLOAT_VECTOR: (ArrayType(FloatType()), pa.list_(pa.field("element", pa.float32()))),
}
"""Spark's types and Arrow's, which must agree. Other vectors are binary."""
_BYTES: Final = (BinaryType(), pa.binary())


def changes(messages: DataFrame, collection: CollectionCreated) -> DataFrame:
    """Return the inserted rows and deleted keys of a collection, from the messages of its topics.

    ``messages`` has a column ``value``, and for Milvus 2.6 ``headers``. It may be a stream. The columns are ``$event``
    ("insert", "delete" or "partition dropped"), ``$time`` (Milvus' time stamp, by which ``current`` orders), ``$at``
    (its wall clock), ``$partition_id``, and then the collection's fields: a delete has only the key. A message that is
    damaged, or not Milvus', fails the job with ``FormatError``.
    """
    columns = _columns(collection)
    wanted = [name for name in ("value", "headers") if name in messages.columns]
    schema = StructType([StructField(name, kinds[0]) for name, kinds in columns.items()])
    return messages.select(*wanted).mapInArrow(_reader(collection, columns), schema)


def current(changes: DataFrame, collection: CollectionCreated) -> DataFrame:
    """Return the rows of a collection as its changes leave them, with the fields as columns. Not for streams.

    The newest change of a key decides; of an upsert's two, which have one time stamp, it is the insert.
    """
    rows, dropped = _sides(changes)
    order = functions.struct(functions.col("`$time`"), functions.col("`$event`") == INSERT)
    newest = functions.max_by(functions.struct(*(f"`{name}`" for name in changes.columns)), order).alias("newest")
    found = rows.groupBy(f"`{collection.schema.primary.name}`").agg(newest).select("newest.*")
    kept = found.where(functions.col("`$event`") == INSERT).join(dropped, "$partition_id", "left_anti")
    return kept.select(*(f"`{name}`" for name in changes.columns if name not in _OWN))


def _sides(changes: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the changes of rows, and the numbers of the dropped partitions."""
    is_dropped = functions.col("`$event`") == PARTITION_DROPPED
    return changes.where(~is_dropped), changes.where(is_dropped).select("`$partition_id`")


def _columns(collection: CollectionCreated) -> dict[str, tuple[SparkType, pa.DataType]]:
    return _OWN | {field.name: _kinds(field) for field in collection.schema.fields}


def _kinds(field: Field) -> tuple[SparkType, pa.DataType]:
    if field.type is DataType.ARRAY and field.element_type is not None:
        spark, arrow = _TYPES[field.element_type]
        return ArrayType(spark), pa.list_(pa.field("element", arrow))
    return _TYPES.get(field.type, _BYTES)


def _reader(
    collection: CollectionCreated, columns: dict[str, tuple[SparkType, pa.DataType]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    number, primary = collection.collection_id, collection.schema.primary.name
    schema = pa.schema([(name, kinds[1]) for name, kinds in columns.items()])

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        rows = 0
        for event in (event for batch in batches for event in _events(batch)):
            if isinstance(event, Insert | Delete | PartitionDropped) and event.collection_id == number:
                found.append(_change(event, primary, schema))
                rows += found[-1].num_rows
                if rows >= ROWS_AT_ONCE:
                    yield from _joined(found)
                    found, rows = [], 0
        if found:
            yield from _joined(found)

    return read


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _events(batch: pa.RecordBatch) -> Iterator[Event]:
    headers = batch.column("headers") if "headers" in batch.schema.names else None
    for at, value in enumerate(batch.column("value")):
        pairs = (headers[at].as_py() if headers is not None else None) or ()
        yield decode_bytes(value.as_py() or b"", [(each["key"], each["value"]) for each in pairs])


def _change(event: Insert | Delete | PartitionDropped, primary: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows that an event adds to the history."""
    arrays: dict[str, Any] = {}
    kind, times = PARTITION_DROPPED, [event.time]
    if isinstance(event, Insert):
        kind, times, batch = INSERT, list(event.times), event.to_arrow()
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    elif isinstance(event, Delete):
        kind, times = DELETE, list(event.times)
        arrays = {primary: pa.array(event.keys, schema.field(primary).type)}
    milliseconds = pa.array([time >> 18 for time in times], pa.timestamp("ms", tz="UTC"))
    own = {
        "$event": pa.repeat(pa.scalar(kind), len(times)),
        "$time": pa.array(times, pa.int64()),
        "$at": milliseconds.cast(pa.timestamp("us", tz="UTC")),
        "$partition_id": pa.repeat(pa.scalar(event.partition_id, pa.int64()), len(times)),
    }
    filled = [_filled({**own, **arrays}.get(field.name), field.type, len(times)) for field in schema]
    return pa.RecordBatch.from_arrays(filled, schema=schema)


def _filled(array: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """Return a column in the type that Spark expects, or nulls if the message lacks it."""
    return pa.nulls(rows, kind) if array is None else array.cast(kind)
