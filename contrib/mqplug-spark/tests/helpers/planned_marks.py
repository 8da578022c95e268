"""A client that knows only watermarks, for planning without a backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mqplug import Capabilities, Log, Position, Watermarks


def at(partition: int, *coordinates: int, topic: str = "orders", incarnation: str = "") -> Position:
    """A position in a partition of a topic."""
    return Position(Log("kafka", "here", topic, partition, incarnation), coordinates)


@attrs.frozen
class MarksClient:
    """Answers planning's questions from watermarks by topic: a low and a high for each partition."""

    lows_and_highs: Mapping[str, Sequence[tuple[int, int]]]
    able: bool = True
    backend: str = "kafka"

    @property
    def capabilities(self) -> Capabilities:
        """Whether positions can be counted."""
        return Capabilities(advance=self.able, persistent=True)

    def close(self, timeout: float) -> None:
        """Close nothing."""

    def topics(self, pattern: Any) -> list[str]:
        """The names of the topics that match."""
        return sorted(filter(pattern.matches, self.lows_and_highs))

    def watermarks(self, topics: Sequence[str]) -> dict[str, dict[int, Watermarks]]:
        """The watermarks of topics."""
        return {
            topic: {
                partition: Watermarks(at(partition, low, topic=topic), at(partition, high, topic=topic), high - low)
                for partition, (low, high) in enumerate(self.lows_and_highs[topic])
            }
            for topic in topics
        }

    def advance(self, position: Position, count: int) -> Position:
        """The position ``count`` messages later."""
        return Position(position.log, (position.coordinates[0] + count,))

    def distance(self, start: Position, until: Position) -> int:
        """The number of messages between two positions."""
        return max(0, until.coordinates[0] - start.coordinates[0])


def client(*lows_and_highs: tuple[int, int], able: bool = True, **topics: Sequence[tuple[int, int]]) -> Any:
    """A client of the topic ``orders``, or of ``topics``."""
    return MarksClient(topics or {"orders": lows_and_highs}, able)
