"""The bytes of Kafka's protocol."""

from __future__ import annotations

import pytest

from mqplug_devbrokers._kafka_wire import _varint, crc32c


def test_the_checksum_is_castagnoli() -> None:
    """The check value of the standard."""
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(("number", "data"), [(0, b"\0"), (5, b"\x0a"), (63, b"\x7e"), (64, b"\x80\x01")])
def test_a_varint_is_zigzag(number: int, data: bytes) -> None:
    """Seven bits in each byte, the lowest first, doubled."""
    assert _varint(number) == data
