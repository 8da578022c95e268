"""Positions, watermarks and stream offsets for tests of planning."""

from __future__ import annotations

from mqplug import Log, Position, Watermarks
from mqplug_spark._ranges.read_range import Partition
from mqplug_spark._stream_read.stream_offsets import StreamOffset


def at(partition: int, *coordinates: int, topic: str = "orders", incarnation: str = "") -> Position:
    """A position in a partition of a topic."""
    return Position(Log("kafka", "here", topic, partition, incarnation), coordinates)


def mark(partition: int, low: int, high: int, incarnation: str = "") -> Watermarks:
    """The watermarks of a partition."""
    return Watermarks(
        at(partition, low, incarnation=incarnation), at(partition, high, incarnation=incarnation), high - low
    )


def orders(number: int) -> Partition:
    """A partition of the topic ``orders``."""
    return Partition("orders", number)


def reached(*offsets: int, begun: dict[int, int] | None = None) -> StreamOffset:
    """The offset of a stream that has read each partition of ``orders`` up to here."""
    return StreamOffset(
        {orders(number): at(number, offset) for number, offset in enumerate(offsets)},
        {orders(number): at(number, offset) for number, offset in (begun or {}).items()},
    )
