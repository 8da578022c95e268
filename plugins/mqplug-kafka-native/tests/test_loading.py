"""The library's functions: taken from the client's own extension, or reported missing by name."""

from __future__ import annotations

import math

import pytest
from compiled_parts import compiled_part

_native = compiled_part("mqplug_kafka_native._native")


def test_a_library_without_the_functions_is_refused():
    """The first function that a library lacks is named, as an ``ImportError``."""
    with pytest.raises(ImportError, match="lacks the function rd_kafka_"):
        _native.load(math.__file__)


def test_a_missing_library_is_named():
    """A path that cannot be opened is in the message."""
    with pytest.raises(ImportError, match=r"/no/such/library\.so cannot be opened"):
        _native.load("/no/such/library.so")
