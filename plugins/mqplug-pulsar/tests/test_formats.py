"""What mqplug stores in Pulsar's own terms: message ids, keys and headers, and the acks in a property."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.escapes import (
    ESCAPE,
    INDEX,
    headers_from_properties,
    headers_to_properties,
    key_from_text,
    key_to_text,
)
from mqplug_pulsar._format.note_texts import MAX_TEXT, BatchAcks

pytestmark = pytest.mark.python


class Native:
    """An id of pulsar-client with these bytes."""

    def __init__(self, ledger, entry, index, data):
        self._place = ledger, entry, index
        self._data = bytes.fromhex(data)

    def ledger_id(self):
        return self._place[0]

    def entry_id(self):
        return self._place[1]

    def batch_index(self):
        return self._place[2]

    def serialize(self):
        return self._data


def test_batched():
    """A message of a batch has its index in the coordinates, and the size of the batch as detail."""
    native = Native(5, 1, 3, "08051001180020033005")
    assert (message_ids.coordinates(native), message_ids.detail(native)) == ((5, 1, 3), (5,))


def test_sizes():
    """A batch size of any encoded length is read from an id; an id without one has none."""
    sizes = {"3005": (5,), "30ac02": (300,), "30b060": (12336,), "": ()}
    for tail, size in sizes.items():
        assert message_ids.batch_size(bytes.fromhex("0805100118002003" + tail)) == size
    assert message_ids.batch_size(bytes.fromhex("080510011800" + "20b060")) == ()


def test_chunked():
    """A chunked message has the coordinates of its last chunk, followed by those of the first."""
    native = Native(5, 9, -1, "0805100918003a0408051007")
    assert message_ids.coordinates(native) == (5, 9, -1, 5, 7)
    assert message_ids.start_of(message_ids.coordinates(native)) == (5, 7, -1)


@pytest.mark.parametrize(
    ("place", "detail", "behind"),
    [
        ((5, 1, -1), (), (5, 2, -1)),
        ((5, 1, 0), (1,), (5, 2, -1)),
        ((5, 1, 0), (5,), (5, 1, 1)),
        ((5, 1, 4), (5,), (5, 2, -1)),
        ((5, 1, 4), (), (5, 1, 5)),
        ((5, 9, -1, 5, 7), (), (5, 10, -1)),
    ],
)
def test_behind(place, detail, behind):
    """The position after the last message of a batch is the next entry."""
    assert message_ids.position_after(place, detail) == behind


def test_before():
    """The position before a batch's first message is its entry; before a chunked message it is the first chunk."""
    assert message_ids.position_before((5, 1, 0)) == (5, 1, -1)
    assert message_ids.position_before((5, 1, 2)) == (5, 1, 2)
    assert message_ids.start_of(message_ids.position_before((5, 9, -1, 5, 7))) == (5, 7, -1)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = texts | st.sampled_from([INDEX, "mqplug.epoch", "a", "b", ""])


@given(st.binary(max_size=12) | texts.map(str.encode) | st.just(ESCAPE.encode()))
def test_key_round_trip(key):
    """Every key, including an empty one, survives the conversion to text and back."""
    assert key_from_text(key_to_text(key)) == key


@given(st.lists(st.tuples(names, st.none() | st.binary(max_size=6) | texts.map(str.encode)), max_size=6))
def test_headers_round_trip(headers):
    """Headers survive the conversion to properties and back with their order, duplicates, bytes and Nones."""
    properties = headers_to_properties(tuple(headers))
    assert all(isinstance(part, str) and part == part.encode().decode() for pair in properties.items() for part in pair)
    assert list(headers_from_properties(properties)) == headers


def test_plain_text_stays_readable():
    """UTF-8 keys and headers are stored as plain text that any other Pulsar client can read."""
    assert key_to_text("käse".encode()) == "käse"
    assert headers_to_properties((("a", b"1"), ("b", b"2"))) == {"a": "1", "b": "2"}
    assert headers_to_properties((("b", b"2"), ("a", b"1"), ("a", b"3")))["b"] == "2"


def test_no_key():
    """A message without a key has the key None, not an empty key."""
    assert key_from_text("") is None


@pytest.mark.parametrize("index", ["nonsense", "[1]", '["gone"]', '[["a","$"]]', "{}", '[["a",1]]'])
def test_foreign_index(index):
    """A property that only resembles mqplug's header index hides no other property."""
    found = dict(headers_from_properties({INDEX: index, "a": "1"}))
    assert found["a"] == b"1"


def test_round_trip():
    """Acks written as text are read back, sorted by batch."""
    acks = BatchAcks({(5, 9): 0b100, (5, 3): 0b11101}, (5, 2))
    assert acks.text() == "5:2;5:3=1d;5:9=4"
    assert BatchAcks.parse(acks.text()) == acks


@pytest.mark.parametrize("text", ["", "nonsense", "5:2;5:3", "5:2;5:3=xyz", "5;5:3=1", "1:2:3;5:3=1"])
def test_foreign_text(text):
    """A property that does not parse means that nothing is acked."""
    assert BatchAcks.parse(text) == BatchAcks()


def test_bound():
    """A text that would become too long leaves out the last batches and can still be parsed."""
    acks = BatchAcks({(7, entry): (1 << 999) - 1 for entry in range(1000)})
    text = acks.text()
    assert MAX_TEXT < len(text) < MAX_TEXT + 1000
    kept = BatchAcks.parse(text).masks
    assert list(kept) == [(7, entry) for entry in range(len(kept))]
    assert 200 < len(kept) < 300


def test_ranges():
    """Runs of acked messages are reported with their first and last coordinates."""
    acks = BatchAcks({(1, 1): 0b1011, (0, 4): 0b1})
    assert acks.ranges() == [((0, 4, 0), (0, 4, 0)), ((1, 1, 0), (1, 1, 1)), ((1, 1, 3), (1, 1, 3))]


def test_joined_and_behind():
    """Acks of two members are joined; acks at or before the mark are left out."""
    joined = BatchAcks({(1, 1): 0b01, (1, 2): 0b01}).joined({(1, 1): 0b10, (1, 3): 0b1})
    assert joined.masks == {(1, 1): 0b11, (1, 2): 0b01, (1, 3): 0b1}
    assert joined.after((1, 1)) == BatchAcks({(1, 2): 0b01, (1, 3): 0b1}, (1, 1))
