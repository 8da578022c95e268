"""The columns of a write, as spark-sql-kafka has them, and ``timestamp``. Checked when the write is planned."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mqplug import ConfigError

_READ_ONLY: Final = frozenset({"offset", "timestampType", "id"})
"""Columns that a read has and a write has no use for: what was read can be written as it is."""


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
    "WITH (url = '...', topic = 'orders'), or make a TEMPORARY VIEW. In Python, write option('topic', ...)"
)


def check_written_schema(schema: StructType, topic: str | None, *, options: bool = True) -> None:
    """Raise ``ConfigError`` for a column that cannot be written, and for one that is missing.

    ``options`` says whether Spark passed any.
    """
    names = schema.fieldNames()
    for field in schema.fields:
        _check_field(field)
        if names.count(field.name) > 1:
            raise ConfigError(f"there are two columns {field.name!r}", fix="Rename one, or drop it")
    if "value" not in names:
        raise ConfigError("the column 'value' is missing", fix="Name the column with the payload 'value'")
    if topic is None and "topic" not in names:
        raise ConfigError(
            "no topic is named",
            fix="Write option('topic', ...), or add a column 'topic' with the topic of each row"
            if options
            else _IN_A_TABLE,
        )


def _check_field(field: StructField) -> None:
    if field.name in _READ_ONLY:
        return
    if field.name not in _KINDS:
        near = get_close_matches(field.name.lower(), _KINDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_KINDS)}"
        raise ConfigError(f"the column {field.name!r} cannot be written: {hint}", fix="Rename it, or drop it")
    wanted, fits = _KINDS[field.name]
    if not fits(field.dataType):
        raise ConfigError(
            f"the column {field.name!r} must be {wanted}, not {field.dataType.simpleString()}",
            fix=f"Cast it, as in col({field.name!r}).cast({wanted.split()[0]!r})",
        )
