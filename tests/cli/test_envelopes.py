"""Messages as JSON lines: what ``consume --json`` writes is what ``produce --json`` reads."""

from __future__ import annotations

import io
import json
from uuid import uuid4

import pytest
from hypothesis import given, settings, strategies as st

import mqplug
from mqplug_cli._messages.envelopes import BadEnvelope, envelopes_of, record_of
from mqplug_cli._messages.pipes import LineSplitter
from mqplug_cli._messages.writing import DECODINGS, json_lines

anything = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)
names = st.text(max_size=8)
records = st.builds(
    mqplug.Record,
    anything,
    key=anything,
    headers=st.lists(st.tuples(names, anything), max_size=4).map(tuple),
    timestamp=st.integers(0, 253_402_300_799_999),
    partition=st.integers(0, 2),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(records, max_size=8), st.sampled_from([None, "utf8", "hex", "base64"]), st.integers(1, 50))
def test_a_pipeline_keeps_every_field(sent, decode, size):
    """Key, value, headers in order, timestamp and partition pass through lines and pieces of lines unchanged."""
    with mqplug.connect(f"memory://{uuid4().hex}") as mq:
        mq.create_topic("t", partitions=3)
        with mq.producer("t") as out:
            out.send_many(sent)
        with mq.consumer("t", start=mqplug.EARLIEST, until=mqplug.LATEST) as reader:
            stream = io.BytesIO(b"".join(map(json_lines(decode, decode), reader.batches())))
    splitter, lines = LineSplitter(), []
    while piece := stream.read(size):
        lines += splitter.split(piece)
    assert splitter.rest() == []
    found = [record_of(line) for line in lines]
    assert sorted(map(repr, found)) == sorted(map(repr, sent))
    for partition in range(3):
        assert of(found, partition) == of(sent, partition)


def of(records, partition):
    """Return the records of one partition, in order."""
    return [each for each in records if each.partition == partition]


@settings(deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_json_values_keep_their_document(value):
    """With --decode json a value comes back as the same document."""
    with mqplug.connect(f"memory://{uuid4().hex}") as mq:
        with mq.producer("t", create=True) as out:
            out.send(json.dumps(value, indent=1).encode())
        with mq.consumer("t", start=mqplug.EARLIEST) as reader:
            (envelope,) = envelopes_of(reader.receive_many(1), "json")
    again = record_of(json.dumps(envelope).encode())
    assert json.loads(again.value) == value


def test_headers_by_hand():
    """Headers may be written as an object, too."""
    record = record_of(b'{"value": "x", "headers": {"a": "1", "b": null}}')
    assert record.headers == (("a", b"1"), ("b", None))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b"[]", "an envelope must be a JSON object, not []"),
        (b'{"value": "\\ud800"}', '"value" is not text'),
        (b'{"value_base64": "?"}', '"value_base64" is not base64'),
        (b'{"value_hex": "0"}', '"value_hex" is not hexadecimal'),
        (b'{"value": "x", "partition": true}', '"partition" must be a non-negative integer, not true'),
        (b'{"value": "x", "timestamp": 253402300800000}', '"timestamp" must be milliseconds since 1970'),
        (b'{"value": "x", "headers": 1}', '"headers" must be a list or an object, not 1'),
        (b'{"value": "x", "headers": [1]}', "a header must be an object"),
        (b'{"value": "x", "headers": [{"name": "a"}]}', 'the header "a" has no "value"'),
        (b'{"value": "x", "headers": [{"name_base64": "/w==", "value": ""}]}', 'the "name_base64" of a header'),
    ],
)
def test_what_is_no_envelope(line, reason):
    """Any line is either an envelope or refused with a reason."""
    with pytest.raises(BadEnvelope) as raised:
        record_of(line)
    assert str(raised.value).startswith(reason)


def test_all_decodings_write_json():
    """The JSON writer supports each decoding."""
    with mqplug.connect(f"memory://{uuid4().hex}") as mq:
        with mq.producer("t", create=True) as out:
            out.send(b"\xff")
        with mq.consumer("t", start=mqplug.EARLIEST) as reader:
            batch = reader.receive_many(1)
    written = {each: json.loads(json_lines(each, None)(batch)) for each in DECODINGS}
    assert {each: [name for name in written[each] if name.startswith("value")] for each in DECODINGS} == {
        "utf8": ["value_base64"], "hex": ["value_hex"], "base64": ["value_base64"], "json": ["value_base64"],
    }  # fmt: skip
