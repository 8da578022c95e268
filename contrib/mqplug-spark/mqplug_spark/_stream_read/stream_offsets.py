"""The offset of a stream, which Spark stores as it is: ``{topic: {partition: text of a position}}``.

A partition that does not begin where the offset before ended has two positions with a space between: where its batch
begins, and where it ends. That is one that has joined, or whose next messages were lost; and in the first batch of a
query each, because Spark stores its start nowhere. So the ranges of a batch follow from its two offsets alone, and one
that is read again after a crash begins where it began at first.
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


def plan_batch(
    start: StreamOffset, end: StreamOffset, losses: LossReports, *, compared: bool = True
) -> list[ReadRange]:
    """Return the ranges between two offsets, by topic and partition; none where there is nothing to read.

    ``end`` was made by a look at ``start``, and has told what was lost, unless the two were never ``compared``.
    """
    if compared and end.begun.keys() == end.reached.keys():
        start = StreamOffset({})  # the first batch of a query: Spark asks again where it begins when it runs again
    for partition in sorted(start.reached.keys() - end.reached.keys()):
        losses.gone(partition, start.reached[partition])
    begins = {**start.reached, **(end.begun if compared else _compare(start, end, losses))}
    found = (_range(partition, begins.get(partition), end.reached[partition]) for partition in sorted(end.reached))
    return [each for each in found if each is not None]


def _compare(start: StreamOffset, end: StreamOffset, losses: LossReports) -> dict[Partition, Position]:
    """Return where partitions begin if ``end`` tells of each the first position that it had then."""
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
            f"the checkpoint has a batch of {partition} from {begin!r} to {until!r}",
            topic=partition.topic, operation="plan a stream", fix="Use the checkpoint as the query wrote it",
        )  # fmt: skip
    return ReadRange(partition.topic, partition.number, begin, until) if begin < until else None
