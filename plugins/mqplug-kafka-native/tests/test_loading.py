"""librdkafka's functions: found in confluent-kafka's extension, or reported missing by name."""

from __future__ import annotations

import math

import pytest
from compiled_parts import compiled_part

_native = compiled_part("mqplug_kafka_native._native")


def test_a_library_without_the_functions_is_refused():
    """A library without librdkafka's functions raises ImportError, which names the first missing one."""
    with pytest.raises(ImportError, match="lacks the function rd_kafka_"):
        _native.load(math.__file__)


def test_a_missing_library_is_named():
    """A library that cannot be opened raises ImportError, which names its path."""
    with pytest.raises(ImportError, match=r"/no/such/library\.so cannot be opened"):
        _native.load("/no/such/library.so")
