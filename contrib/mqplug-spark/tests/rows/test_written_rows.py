"""Conversion of Spark's batches to batches for sending, and errors for rows that cannot be sent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mqplug import InvalidRecord, MessageTooLarge
from mqplug_spark._write.rows import WrittenRows

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


def rows(*batches: pa.RecordBatch, topic: str | None = "orders") -> WrittenRows:
    """The rows of task 3, for topics with two partitions and messages of up to 100 bytes."""
    return WrittenRows(iter(batches), 3, topic, 100, lambda _: 2)


def test_rows_of_one_topic_stay_together() -> None:
    """A batch keeps the columns that are sent, and the numbers of its rows in the task."""
    made = rows(batch(value=[b"1", b"2"], offset=[7, 8]), batch(value=[]), batch(value=[None]))
    first, second = made
    assert (first.topic, first.columns.to_pydict(), list(first.numbers)) == ("orders", {"value": [b"1", b"2"]}, [0, 1])
    assert (second.columns.to_pydict(), list(second.numbers)) == ({"value": [None]}, [2])
    assert made.count == 3


def test_rows_are_split_by_topic() -> None:
    """Rows of several topics become a batch for each, in order."""
    made = rows(batch(value=[b"0", b"1", b"2"], topic=["b", "a", "b"]), topic=None)
    assert [(each.topic, each.columns["value"].to_pylist(), list(each.numbers)) for each in made] == [
        ("b", [b"0", b"2"], [0, 2]),
        ("a", [b"1"], [1]),
    ]


def test_the_option_overrides_the_column() -> None:
    """With the option topic, the column is ignored."""
    (only,) = rows(batch(value=[b"0", b"1"], topic=["b", None]), topic="orders")
    assert (only.topic, only.columns.schema.names) == ("orders", ["value"])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_strings_are_sent_as_utf8(kind: pa.DataType) -> None:
    """Values and keys that are strings become bytes."""
    (only,) = rows(pa.record_batch([pa.array(["ä", None], pa.string()).cast(kind)], names=["value"]))
    assert only.columns["value"].to_pylist() == ["ä".encode(), None]


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
def test_a_bad_row_is_named(columns: dict[str, list[Any]], says: str) -> None:
    """The error names the column and the row, but shows none of its content."""
    made = rows(batch(value=[b"x"] * 10), batch(value=[b"secret", b"b", b"c"], **columns))
    with pytest.raises(InvalidRecord, match=says) as refused:
        list(made)
    assert "secret" not in str(refused.value)


def test_a_row_without_a_topic_is_named() -> None:
    """A null topic is an error if no option names the topic."""
    with pytest.raises(InvalidRecord, match="'topic' of row 1 of task 3 is null"):
        list(rows(batch(value=[b"1", b"2"], topic=["a", None]), topic=None))


@pytest.mark.parametrize(
    "columns",
    [{"value": [b"", b"x" * 101]}, {"value": [b"", b"x" * 60], "key": [b"k" * 60, b"k" * 50]}],
)
def test_a_row_that_is_too_large_is_named(columns: dict[str, list[Any]]) -> None:
    """A message that is too large for the backend raises an error before any of its batch is sent."""
    with pytest.raises(MessageTooLarge, match=r"'value' of row 1 of task 3 makes a message of 1\d\d bytes"):
        list(rows(batch(**columns)))


def test_headers_count_for_the_size() -> None:
    """Headers count for the size of a message; many small rows together may exceed it."""
    fits = [{"key": "h", "value": b"x" * 50}]
    assert len(list(rows(batch(value=[b"v"] * 3, headers=[fits] * 3)))) == 1
    with pytest.raises(MessageTooLarge, match="row 2 "):
        list(rows(batch(value=[b"v"] * 3, headers=[fits, None, fits * 2])))


def test_added_partitions_are_seen() -> None:
    """A partition that was added later is accepted: the backend is asked again."""
    counts = iter([2, 4])
    made = WrittenRows(
        iter([batch(value=[b"1"], partition=[1]), batch(value=[b"1"], partition=[3])]), 0, "orders", 100,
        lambda _: next(counts),
    )  # fmt: skip
    assert len(list(made)) == 2
