"""Keys and headers as Pulsar's text keys and properties."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mqplug_pulsar._format.escapes import (
    ESCAPE,
    INDEX,
    headers_from_properties,
    headers_to_properties,
    key_from_text,
    key_to_text,
)

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
