"""The library's functions, loaded from pulsar-client's extension or reported missing by name."""

from __future__ import annotations

import math

import _pulsar
import pytest
from compiled_parts import compiled_part

_native = compiled_part("mqplug_pulsar_native._native")


def test_a_library_without_the_functions_is_refused():
    """A library without a needed function is an ``ImportError`` that names the function."""
    with pytest.raises(ImportError, match="lacks the function pulsar_"):
        _native.load(math.__file__)


def test_a_missing_library_is_named():
    """A library that cannot be opened is an ``ImportError`` with its path."""
    with pytest.raises(ImportError, match=r"/no/such/library\.so cannot be opened"):
        _native.load("/no/such/library.so")


def test_an_object_of_another_type_is_refused():
    """An object of pulsar-client that has another type than expected raises ``TypeError``."""
    with pytest.raises(TypeError, match="not an object of the type"):
        _native.try_out(_pulsar.MessageBuilder(), _pulsar.MessageBuilder(), b"key", b"value")


def test_an_object_that_is_not_the_clients_is_refused():
    """An object from outside pulsar-client's extension raises ``AttributeError``."""
    with pytest.raises(AttributeError, match="conduit"):
        _native.try_out(object(), _pulsar.MessageBuilder(), b"key", b"value")


def test_numbers_and_text_pass_the_border():
    """The library's C++ methods read an id's numbers and write text with NUL."""
    builder = _pulsar.MessageBuilder()
    assert _native.try_out(_pulsar.MessageId(1, 2**62, 3, 4), builder, b"a\0b", b"\0")[:3] == (2**62, 3, 4)
    message = builder.build()
    assert (message.partition_key(), message.properties()) == ("a\0b", {"a\0b": "\0"})
