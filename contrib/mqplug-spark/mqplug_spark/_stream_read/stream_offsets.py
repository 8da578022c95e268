"""The offset of a stream, which Spark stores unchanged: ``{topic: {partition: text of a position}}``.

A partition that does not begin where the previous offset ended has two positions, with a space between them: where its
batch begins, and where it ends. This applies to a new partition, to one whose next messages were lost, and to every
partition in the first batch of a query, because Spark does not store its start. So the ranges of a batch depend only on
its two offsets, and a batch that is read again after a crash begins where it first began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from mqplug import ConfigError, InvalidMessageId, Position
from mqplug_spark._ranges.data_loss import LossReports, recreated
from mqplug_spark._ranges.read_range import Partition, ReadRange

StoredOffset = dict[str, dict[str, str]]

_BETWEEN: Final = " "


@attrs.frozen
class StreamOffset:
    """How far a query has read each partition, and where it began if that is not the previous offset."""

    reached: Mapping[Partition, Position]
    begun: Mapping[Partition, Position] = attrs.field(factory=dict)

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> StreamOffset:
        """Parse an offset that Spark stored. Raise ``ConfigError`` if this source did not write it."""
        reached, begun = {}, {}
        for partition, text in _texts(stored):
            first, between, last = text.partition(_BETWEEN)
            reached[partition] = _position(partition, last if between else first)
            if between:
                begun[partition] = _position(partition, first)
        return cls(reached, begun)

    def common(self, other: StreamOffset) -> frozenset[Partition]:
        """Return the partitions with the same position in both offsets."""
        return frozenset(each for each, at in self.reached.items() if other.reached.get(each) == at)

    def to_store(self) -> StoredOffset:
        """Return the offset in the form that Spark stores. Equal offsets have equal JSON, which Spark compares."""
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
        fix="Name the checkpoint of this query; to continue one of spark-sql-kafka, set startingOffsets=checkpoint:...",
    )  # fmt: skip


def plan_batch(
    start: StreamOffset, end: StreamOffset, losses: LossReports, *, compared: bool = True
) -> list[ReadRange]:
    """Return the ranges between two offsets, by topic and partition. A partition with nothing to read has none.

    If the offsets were ``compared``, ``end`` was planned from ``start``, and losses were reported then.
    """
    if compared and end.begun.keys() == end.reached.keys():
        start = StreamOffset({})  # the first batch of a query: if it runs again, Spark asks for its start again
    for partition in sorted(start.reached.keys() - end.reached.keys()):
        losses.gone(partition, start.reached[partition])
    begins = {**start.reached, **(end.begun if compared else _compare(start, end, losses))}
    found = (_range(partition, begins.get(partition), end.reached[partition]) for partition in sorted(end.reached))
    return [each for each in found if each is not None]


def _compare(start: StreamOffset, end: StreamOffset, losses: LossReports) -> dict[Partition, Position]:
    """Return where partitions begin, given the first position that each had when ``end`` was planned."""
    begins = {}
    for partition, low in end.begun.items():
        at = start.reached.get(partition, low)
        if at.log is low.log and at < low:
            losses.removed(partition, at, low)
        begins[partition] = min(max(at, low), end.reached[partition]) if at.log is low.log else at
    return begins


def _range(partition: Partition, begin: Position | None, until: Position) -> ReadRange | None:
    if begin is not None and begin.log is not until.log:
        raise recreated(partition, begin)
    if begin is None or begin > until:
        raise ConfigError(
            f"the checkpoint has an invalid batch of {partition}, from {begin!r} to {until!r}",
            topic=partition.topic, operation="plan a stream", fix="Use the checkpoint as the query wrote it",
        )  # fmt: skip
    return ReadRange(partition.topic, partition.number, begin, until) if begin < until else None
