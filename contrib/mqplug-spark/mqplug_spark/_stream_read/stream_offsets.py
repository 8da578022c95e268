"""The offset of a stream, which Spark stores as it is: ``{topic: {partition: text of a position}}``.

A partition that does not begin where the offset before ended has two positions with a space between: where its batch
begins, and where it ends. That is one that has joined, or whose next messages were lost; and in the first batch of a
query each, because Spark stores its start nowhere. So a batch that is read again after a crash begins where it began at
first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import attrs

from mqplug import ConfigError, InvalidMessageId, Position

StoredOffset = dict[str, dict[str, str]]

_BETWEEN: Final = " "


class Partition(NamedTuple):
    """A partition of a topic, by the names that the query uses. Sorted by topic and number."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@attrs.frozen
class StreamOffset:
    """How far a query has read each partition; and where those began that did not begin at the offset before."""

    reached: Mapping[Partition, Position]
    begun: Mapping[Partition, Position] = attrs.field(factory=dict)

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> StreamOffset:
        """Return an offset from what Spark has stored. Raise ``ConfigError`` if it is no offset of this source."""
        reached, begun = {}, {}
        for partition, text in _texts(stored):
            first, between, last = text.partition(_BETWEEN)
            reached[partition] = _position(partition, last if between else first)
            if between:
                begun[partition] = _position(partition, first)
        return cls(reached, begun)

    def common(self, other: StreamOffset) -> frozenset[Partition]:
        """Return the partitions that both have read equally far."""
        return frozenset(each for each, at in self.reached.items() if other.reached.get(each) == at)

    def to_store(self) -> StoredOffset:
        """Return what Spark stores. Equal offsets have equal JSON, by which Spark compares them."""
        stored: StoredOffset = {}
        for partition, position in sorted(self.reached.items()):
            text = str(position)
            if partition in self.begun:
                text = f"{self.begun[partition]}{_BETWEEN}{text}"
            stored.setdefault(partition.topic, {})[str(partition.number)] = text
        return stored


def _texts(stored: Mapping[str, Any]) -> Iterable[tuple[Partition, str]]:
    for topic, partitions in stored.items():
        if not isinstance(partitions, dict):
            raise _not_ours(f"{topic!r}: {partitions!r}")
        for number, text in partitions.items():
            if not (isinstance(number, str) and number.isascii() and number.isdigit() and isinstance(text, str)):
                raise _not_ours(f"{topic!r}: {number!r}: {text!r}")
            yield Partition(topic, int(number)), text


def _position(partition: Partition, text: str) -> Position:
    try:
        return Position.parse(text)
    except InvalidMessageId as error:
        raise _not_ours(f"{partition}: {error.message}") from None


def _not_ours(what: str) -> ConfigError:
    return ConfigError(
        f"the checkpoint holds an offset that mqplug did not store: {what}", operation="plan a stream",
        fix="Name the checkpoint of this query; startingOffsets=checkpoint:PATH takes over one of spark-sql-kafka",
    )  # fmt: skip
