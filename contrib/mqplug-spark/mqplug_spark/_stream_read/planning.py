"""Plans the ranges of a batch from its two offsets alone, so that a batch that is read again has the same ranges."""

from __future__ import annotations

from mqplug import ConfigError, Position
from mqplug_spark._ranges.read_range import ReadRange
from mqplug_spark._stream_read.data_loss import LossReports, made_again
from mqplug_spark._stream_read.stream_offsets import Partition, StreamOffset


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
        raise made_again(partition, begin)
    if begin is None or begin > until:
        raise ConfigError(
            f"the checkpoint has a batch of {partition} from {begin!r} to {until!r}",
            topic=partition.topic, operation="plan a stream", fix="Use the checkpoint as the query wrote it",
        )  # fmt: skip
    return ReadRange(partition.topic, partition.number, str(begin), str(until)) if begin < until else None
