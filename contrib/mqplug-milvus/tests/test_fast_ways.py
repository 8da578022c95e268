"""The shorter ways of reading numbers and texts give what the long ways give, and refuse what they refuse."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st
from written_messages import field, packed

import mqplug_milvus
from mqplug_milvus import DataType, FormatError

pytest.importorskip("pyarrow")
VARCHAR = 21
numbers = st.integers(0, 2**64 - 1)


def insert(times, ids, texts):
    """Return an insert message with one column of texts."""
    stored = b"".join(field(1, text.encode()) for text in texts)
    column = field(1, VARCHAR) + field(2, b"text") + field(3, field(6, stored)) + field(5, 100)
    base = field(1, field(1, 400))
    return base + field(7, 1) + field(10, packed(times)) + field(11, packed(ids)) + field(13, column)


@given(numbers, st.lists(numbers, max_size=4), st.integers(0, 20))
@example(2**63, [], 3)
def test_times_and_row_ids(first, others, times):
    """Time stamps of which many are the same, and row ids with their signs, are read as they were written."""
    values = [first] * times + others
    event = mqplug_milvus.decode_bytes(insert(values, values, []))
    assert event.times == values
    assert event.row_ids == [value - 2**64 if value >= 2**63 else value for value in values]


@given(st.lists(st.text(max_size=200), max_size=5), st.integers(0, 10**6), st.integers(0, 255))
def test_a_changed_byte_in_texts(texts, at, byte):
    """As Arrow, texts are the same as in rows; with a changed byte, the same or an error."""
    data = insert([7] * len(texts), [1] * len(texts), texts)
    assert mqplug_milvus.decode_bytes(data).to_arrow().column("text").to_pylist() == texts
    changed = bytearray(data)
    changed[at % len(data)] = byte
    try:
        event = mqplug_milvus.decode_bytes(bytes(changed))
    except FormatError:
        return
    for column in getattr(event, "columns", ()):
        as_arrow = outcome(lambda name=column.name: event.to_arrow().column(name).to_pylist())
        if column.type is DataType.VARCHAR and as_arrow is not FormatError:
            assert as_arrow == outcome(column.values)


def outcome(read):
    """Return what is read, or that it is an error."""
    try:
        return read()
    except FormatError:
        return FormatError
