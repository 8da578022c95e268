"""The columns of reads and writes. The Spark and Arrow types of a read column must agree exactly.

A write accepts the columns of spark-sql-kafka, and ``timestamp``. They are checked when the write is planned.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as functions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mqplug import Batch, ConfigError

pc: Any = functions  # pyarrow creates them at import, so type checkers know few of them

_FIRST_TIME_MS: Final = -62_135_596_800_000  # the start of the year 1
_LAST_TIME_MS: Final = 253_402_300_799_999  # the end of the year 9999

_HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_ARROW_HEADERS: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))

_TYPES: Final[dict[str, tuple[DataType, pa.DataType]]] = {
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "topic": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), pa.timestamp("us", tz="UTC")),
    "timestampType": (IntegerType(), pa.int32()),
    "headers": (_HEADERS, _ARROW_HEADERS),
    "id": (StringType(), pa.string()),
}
_CORE_NAMES: Final = {"timestampType": "timestamp_type"}

_READ_ONLY: Final = frozenset({"offset", "timestampType", "id"})
"""Read columns that a write ignores, so that a data frame can be written as it was read."""


@attrs.frozen
class ReadColumns:
    """The columns that a read yields, in order."""

    names: tuple[str, ...]

    def spark_schema(self) -> StructType:
        """Return the Spark schema. All columns are nullable."""
        return StructType([StructField(name, _TYPES[name][0]) for name in self.names])

    def record_batch(self, batch: Batch) -> pa.RecordBatch:
        """Return these columns of a batch."""
        stored = batch.to_arrow([_CORE_NAMES.get(name, name) for name in self.names])
        arrays = [_array(stored.column(number), name) for number, name in enumerate(self.names)]
        return pa.record_batch(arrays, schema=pa.schema([(name, _TYPES[name][1]) for name in self.names]))


def _array(column: pa.Array, name: str) -> pa.Array:
    """Convert a column to Spark's type."""
    kind = _TYPES[name][1]
    if name == "timestamp":
        return _shown_times(column).cast(kind)
    if name == "headers":
        return _without_empty(column).cast(kind)
    return column if column.type == kind else column.cast(kind)


def _without_empty(column: pa.Array) -> pa.Array:
    """Replace empty headers with null, as spark-sql-kafka does."""
    sizes = pc.list_value_length(column)
    if not pc.max(sizes).as_py():
        return pa.nulls(len(column), column.type)
    return pc.if_else(pc.greater(sizes, pa.scalar(0, pa.int32())), column, pa.scalar(None, column.type))


def _shown_times(column: pa.Array) -> pa.Array:
    """Replace times outside Spark's years, 1 to 9999, with null. Other producers may store any number."""
    milliseconds = column.view(pa.int64())
    found = pc.min_max(milliseconds).as_py()
    if not len(column) or (found["min"] >= _FIRST_TIME_MS and found["max"] <= _LAST_TIME_MS):  # the usual case
        return column
    # Typed scalars: with plain numbers, pyarrow would look for pandas each time.
    first, last = pa.scalar(_FIRST_TIME_MS, pa.int64()), pa.scalar(_LAST_TIME_MS, pa.int64())
    inside = pc.and_(pc.greater_equal(milliseconds, first), pc.less_equal(milliseconds, last))
    return pc.if_else(inside, column, pa.scalar(None, column.type))


def all_columns(*, include_headers: bool = False, include_id: bool = False) -> ReadColumns:
    """Return the columns of a read for which no schema is given."""
    left_out = {name for name, wanted in (("headers", include_headers), ("id", include_id)) if not wanted}
    return ReadColumns(tuple(name for name in _TYPES if name not in left_out))


def chosen_columns(schema: StructType) -> ReadColumns:
    """Return the columns of a schema, which may be a subset in any order."""
    for field in schema.fields:
        _check_read_field(field)
    return ReadColumns(tuple(field.name for field in schema.fields))


def _check_read_field(field: StructField) -> None:
    if field.name not in _TYPES:
        raise ConfigError(f"unknown column {field.name!r}", fix=f"Choose from {', '.join(_TYPES)}")
    wanted = _TYPES[field.name][0]
    if field.dataType.simpleString() != wanted.simpleString():
        raise ConfigError(
            f"column {field.name!r} must be {wanted.simpleString()}, not {field.dataType.simpleString()}",
            fix=f"Read it as {wanted.simpleString()} and cast it in Spark",
        )
    if field.dataType != wanted or not field.nullable:
        raise ConfigError(f"column {field.name!r} and its fields must be nullable", fix="Remove NOT NULL")


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


_KINDS: Final[dict[str, tuple[str, Callable[[DataType], bool]]]] = {
    "value": ("binary or string", _is_bytes),
    "key": ("binary or string", _is_bytes),
    "headers": ("array<struct<key:string,value:binary>>", _are_headers),
    "topic": ("string", _is_text),
    "partition": ("int", lambda kind: isinstance(kind, IntegerType)),
    "timestamp": ("timestamp", lambda kind: isinstance(kind, TimestampType)),
}


_IN_A_TABLE: Final = (
    "Spark loses the options of CREATE TABLE: give them with each statement, as in INSERT INTO orders "
    "WITH (url = '...', topic = 'orders'), or create a TEMPORARY VIEW. In Python, set option('topic', ...)"
)


def check_written_schema(schema: StructType, topic: str | None, *, options: bool = True) -> None:
    """Raise ``ConfigError`` for a column that cannot be written, or a missing one.

    ``options``: whether Spark passed any options.
    """
    names = schema.fieldNames()
    for field in schema.fields:
        _check_written_field(field)
        if names.count(field.name) > 1:
            raise ConfigError(f"duplicate column {field.name!r}", fix="Rename or drop one of them")
    if "value" not in names:
        raise ConfigError("column 'value' is missing", fix="Name the column with the payload 'value'")
    if topic is None and "topic" not in names:
        raise ConfigError(
            "no topic is given",
            fix="Set option('topic', ...), or add a column 'topic' with the topic of each row"
            if options
            else _IN_A_TABLE,
        )


def _check_written_field(field: StructField) -> None:
    if field.name in _READ_ONLY:
        return
    if field.name not in _KINDS:
        near = get_close_matches(field.name.lower(), _KINDS, n=1)
        hint = f": did you mean {near[0]!r}?" if near else f"; expected one of {', '.join(_KINDS)}"
        raise ConfigError(f"unknown column {field.name!r}{hint}", fix="Rename or drop it")
    wanted, fits = _KINDS[field.name]
    if not fits(field.dataType):
        raise ConfigError(
            f"column {field.name!r} must be {wanted}, not {field.dataType.simpleString()}",
            fix=f"Cast it, as in col({field.name!r}).cast({wanted.split()[0]!r})",
        )
