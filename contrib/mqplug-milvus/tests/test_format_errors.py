"""Bytes that are damaged, foreign, or newer than what is read."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st
from recordings import messages

import mqplug
import mqplug_milvus
from mqplug_milvus import Delete, FormatError, Insert, TimeTick

SAMPLES = [value for stored in messages("rocksmq").values() for value, _ in stored]
A_TICK = next(value for value in SAMPLES if isinstance(mqplug_milvus.decode_bytes(value), TimeTick))
AN_INSERT = next(value for value in SAMPLES if isinstance(mqplug_milvus.decode_bytes(value), Insert))
A_DELETE = next(value for value in SAMPLES if isinstance(mqplug_milvus.decode_bytes(value), Delete))


def newer(kind, time="zz", **more):
    """Return the headers of the newer form."""
    return [("_v", b"1"), ("_t", str(kind).encode()), ("_tt", time.encode()), *more.items()]


@pytest.mark.parametrize("value", [b"", b"hello", b"\x00\x01", b'{"a": 1}', b"\x0a\x02\x08\x07", A_TICK[:-1]])
def test_foreign_bytes(value):
    """Bytes that are no message of Milvus raise the error that says so, never another one."""
    with pytest.raises(FormatError):
        mqplug_milvus.decode_bytes(value)


@given(st.sampled_from(SAMPLES), st.integers(0, 10**6), st.integers(0, 255))
def test_a_changed_byte(value, at, byte):
    """A message with a changed byte is read, or raises the error for a damaged one, also when its rows are read."""
    changed = bytearray(value)
    changed[at % len(changed)] = byte
    try:
        event = mqplug_milvus.decode_bytes(bytes(changed))
        if isinstance(event, Insert):
            assert len(list(event.rows())) == len(event)
    except FormatError:
        pass


@given(st.sampled_from([AN_INSERT, A_DELETE]), st.data())
def test_a_shortened_message(value, data):
    """A message that was cut never yields a wrong row: it is an error, or ends before its columns and keys."""
    cut = value[: data.draw(st.integers(1, len(value) - 1))]
    try:
        event = mqplug_milvus.decode_bytes(cut)
        whole = mqplug_milvus.decode_bytes(value)
        if isinstance(event, Insert):
            for short, full in zip(event.rows(), whole.rows(), strict=False):
                assert short.items() <= full.items()
        if isinstance(event, Delete):
            assert list(event.keys) in ([], list(whole.keys))
    except FormatError:
        pass


@given(st.binary(max_size=200))
def test_random_bytes(value):
    """Random bytes raise only the error for what is no message of Milvus."""
    with suppress(FormatError):
        mqplug_milvus.decode_bytes(value)


def test_the_error_names_the_topic():
    """The error for a message names the topic that it is from."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("notes")
        with mq.producer("notes") as out:
            out.send(b"hello")
        with pytest.raises(FormatError, match="notes"):
            list(mqplug_milvus.read_events(mq, "notes"))


def test_the_newer_form():
    """In the newer form the time stamp in the properties counts for the message and for each row."""
    insert = mqplug_milvus.decode_bytes(AN_INSERT, newer(2))
    assert isinstance(insert, Insert)
    assert {insert.time, *insert.times} == {int("zz", 36)}
    assert isinstance(mqplug_milvus.decode_bytes(A_DELETE, newer(3)), Delete)
    assert mqplug_milvus.decode_bytes(A_TICK, newer(1)) == TimeTick(time=int("zz", 36))


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        (newer(900), "transaction"),
        (newer(2, _tx=b"x"), "transaction"),
        (newer(2, _ch=b"x"), "encrypted"),
        (newer(4711), "type 4711"),
        (newer("x"), "'_t' is no number"),
        (newer(1, time="!"), "'_tt' is no number"),
    ],
)
def test_newer_forms_that_are_not_read(headers, says):
    """A form that is not read raises an error that names it."""
    with pytest.raises(FormatError, match=says):
        mqplug_milvus.decode_bytes(A_TICK, headers)
