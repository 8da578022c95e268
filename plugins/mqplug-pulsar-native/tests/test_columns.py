"""Columns of messages, compared with pulsar-client's getters. The messages are parsed from bytes, without a broker."""

from __future__ import annotations

import gc
import os
import resource
import struct
from itertools import pairwise

import _pulsar
import pytest
from compiled_parts import compiled_part

native = compiled_part("mqplug_pulsar_native")
CHUNKED, NO_KEY, NULL_VALUE = native.CHUNKED, native.NO_KEY, native.NULL_VALUE
ODD_HEADERS, ODD_KEY = native.ODD_HEADERS, native.ODD_KEY
collect, take = native.collect, native.take

VALUE, KEY, TIME, NULL = 3, 2, 5, 9  # field numbers of a message's metadata in a batch


def varint(number):
    """Return a number as a varint of Pulsar's metadata."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def text(field, data):
    """Return a field with bytes."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def message_bytes(value=b"", key=None, headers=(), time=None, null=False):
    """Return a message inside a batch: the size of its metadata, its metadata, and its value."""
    metadata = b"".join(text(1, text(1, name) + text(2, content)) for name, content in headers)
    metadata += text(KEY, key) if key is not None else b""
    metadata += varint(VALUE << 3) + varint(len(value))
    metadata += varint(TIME << 3) + varint(time) if time is not None else b""
    metadata += varint(NULL << 3) + b"\1" if null else b""
    return struct.pack(">I", len(metadata)) + metadata + value


def batch(*messages, ledger=7, entry=8):
    """Return the messages of one batch as pulsar-client's objects."""
    parser = _pulsar.MessageBatch().with_message_id(_pulsar.MessageId(-1, ledger, entry, -1))
    return list(parser.parse_from(b"".join(messages), len(messages)).messages())


MIXED = batch(
    message_bytes(b"plain", b"key", [(b"b", b"2"), (b"a", b"1")], 5),
    message_bytes(b"", b"", null=True),
    message_bytes(b"\0" * 3, b"\0k\0", [(b"a\0", b"\0"), (b"", b"")]),
    message_bytes(b"x" * 70_000, "é".encode(), [("é".encode(), b"v")], 2**62),
    message_bytes(b"", b"m", [(b"mqplug.epoch", b"")]),
    message_bytes(b"last", None, [(b"n%d" % number, b"v" * number) for number in range(40)]),
)


def numbers(rows, column, kind):
    """Return the numbers in a column."""
    return memoryview(rows.buffer(column)).cast("B").cast(kind).tolist()


def key_text(key):
    """Return a key as text."""
    return key if isinstance(key, str) or key is None else key.decode()


def as_dict(headers):
    """Return headers as properties."""
    return headers if isinstance(headers, dict) else {name: value.decode() for name, value in headers}


def test_columns_are_what_the_client_says():
    """Each column equals the results of the messages' getters, also for NUL and unusual text."""
    rows = collect(MIXED)
    assert rows.values() == [None if each.has_null_value() else each.data() for each in MIXED]
    assert list(map(key_text, rows.keys())) == [each.partition_key() or None for each in MIXED]
    assert list(map(as_dict, rows.headers())) == [each.properties() for each in MIXED]
    assert numbers(rows, "published", "q") == [each.publish_timestamp() for each in MIXED]
    assert numbers(rows, "attempt", "i") == [each.redelivery_count() + 1 for each in MIXED]
    assert numbers(rows, "schema_version", "q") == [each.int_schema_version() for each in MIXED]
    ids = [each.message_id() for each in MIXED]
    assert rows.coordinates() == [(each.ledger_id(), each.entry_id(), each.batch_index()) for each in ids]
    assert rows.details() == [(len(MIXED),)] * len(MIXED)


def test_odd_rows_are_marked():
    """Keys and headers that may be escaped or are not ASCII are text or a dictionary; all others are bytes."""
    rows = collect(MIXED)
    assert list(map(type, rows.keys())) == [bytes, type(None), bytes, str, str, type(None)]
    assert list(map(type, rows.headers())) == [tuple, tuple, tuple, dict, dict, tuple]
    assert rows.any == NULL_VALUE | NO_KEY | ODD_KEY | ODD_HEADERS
    assert not rows.any & CHUNKED
    assert collect(MIXED[:1]).any == 0


def test_headers_are_sorted_by_name():
    """Headers are sorted by name, because a message's properties have no order."""
    assert collect(MIXED[:1]).headers() == [(("a", b"1"), ("b", b"2"))]


def test_a_timestamp_of_0_is_marked_by_a_property():
    """A message without an event time has its publish time, or 0 if a property marks it."""
    rows = collect(MIXED)
    published = MIXED[0].publish_timestamp()
    assert numbers(rows, "timestamp", "q") == [5, published, published, 2**62, 0, published]


def test_bitmaps_leave_out_what_is_missing():
    """A bitmap of valid rows exists only if a row is missing."""
    rows = collect(MIXED)
    assert rows.without(NULL_VALUE) == bytes([0b111101])
    assert rows.without(NO_KEY) == bytes([0b011101])
    assert rows.without(CHUNKED) is None
    assert collect(MIXED[1:2] * 9).without(NO_KEY) == bytes(2)


def test_offsets_divide_the_bytes():
    """A column's bytes lie one after the other in a buffer, and its offsets are their ends."""
    rows = collect(MIXED[:3])
    ends = numbers(rows, "value_offsets", "i")
    data = bytes(rows.buffer("value"))
    assert [data[begin:end] for begin, end in pairwise(ends)] == [b"plain", b"", b"\0\0\0"]
    assert numbers(rows, "header_offsets", "i") == [0, 2, 2, 4]
    assert bytes(rows.buffer("name")) == b"aba\0"


def test_runs_are_the_messages_of_one_batch():
    """Consecutive messages of a batch are a run; repeated or skipped ones end it."""
    other = batch(message_bytes(b"1"), message_bytes(b"2"), entry=9)
    single = _pulsar.MessageBuilder().build()
    rows = collect([*MIXED[2:], *other, *other[1:], MIXED[0], MIXED[2], single, single])
    assert rows.runs() == [
        ((7, 8, 2), (6,), 4),
        ((7, 9, 0), (2,), 2),
        ((7, 9, 1), (2,), 1),
        ((7, 8, 0), (6,), 1),
        ((7, 8, 2), (6,), 1),
        ((-1, -1, -1), (), 1),
        ((-1, -1, -1), (), 1),
    ]


def test_rows_are_chosen():
    """A selection of rows has all their columns, in the order of the selection."""
    chosen = collect(MIXED).only([5, 0, 0, 3])
    again = collect([MIXED[row] for row in (5, 0, 0, 3)])
    assert (chosen.values(), chosen.keys(), chosen.headers()) == (again.values(), again.keys(), again.headers())
    assert (chosen.runs(), chosen.any, len(chosen)) == (again.runs(), again.any, 4)
    for column in ("value_offsets", "header_offsets", "timestamp", "flags", "batch_size"):
        assert bytes(chosen.buffer(column)) == bytes(again.buffer(column))


@pytest.mark.parametrize("wrong", [[6], [-1], [2**70], ["a"], 5])
def test_rows_that_are_not_there(wrong):
    """A selection with anything but existing row numbers is refused."""
    with pytest.raises((IndexError, TypeError, OverflowError)):
        collect(MIXED).only(wrong)


def test_nothing():
    """An empty list of messages gives columns without rows."""
    rows = collect([])
    assert (len(rows), rows.values(), rows.headers(), rows.runs(), bytes(rows.buffer("value"))) == (0, [], [], [], b"")
    assert numbers(rows, "value_offsets", "i") == [0]
    assert len(collect(MIXED).only([])) == 0


@pytest.mark.parametrize("field", ["key", "name", "value"])
def test_text_that_is_not_utf8(field):
    """Keys and headers that are not UTF-8 raise ``UnicodeDecodeError`` when read; values can still be read."""
    bad = {
        "key": message_bytes(key=b"\xff"),
        "name": message_bytes(headers=[(b"\xff", b"")]),
        "value": message_bytes(headers=[(b"a", b"\xff")]),
    }[field]
    rows = collect(batch(bad, message_bytes(b"fine")))
    assert rows.values() == [b"", b"fine"]
    with pytest.raises(UnicodeDecodeError):
        rows.keys() if field == "key" else rows.headers()


def test_a_buffer_keeps_its_rows():
    """A buffer can be read after its rows are gone."""
    view = memoryview(collect(MIXED).buffer("value"))
    gc.collect()
    assert bytes(view[:5]) == b"plain"
    assert view.readonly


def test_wrong_arguments():
    """An argument that is not a message, list, reader or column is refused."""
    for wrong in (5, [5], [_pulsar.MessageId(1, 2, 3, 4)], [MIXED[0], None], (MIXED[0],)):
        with pytest.raises((TypeError, AttributeError)):
            collect(wrong)
    with pytest.raises(TypeError):
        take(MIXED[0], [], _pulsar.Message(), 1)
    with pytest.raises(ValueError, match="no column x"):
        collect([]).buffer("x")


@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer keeps what is free for a while")
def test_memory_is_given_back():
    """The memory of columns, selections and buffers is freed with them."""

    def use():
        rows = collect(MIXED * 20).only(range(100))
        return rows.values(), rows.keys(), rows.headers(), rows.coordinates(), rows.runs(), rows.buffer("value")

    for _ in range(20):
        use()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200):
        use()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024  # KiB; 200 times 3 MiB were used
