"""Plans the ranges of a batch from its two offsets alone, so that a batch that is read again has the same ranges."""

from __future__ import annotations

from mqplug import ConfigError
from mqplug_spark._ranges.read_range import ReadRange
from mqplug_spark._stream_read.data_loss import LossReports, made_again
from mqplug_spark._stream_read.stream_offsets import Partition, StreamOffset


def plan_batch(start: StreamOffset, end: StreamOffset, losses: LossReports) -> list[ReadRange]:
    """Return the ranges between two offsets, by topic and partition; none where there is nothing to read."""
    for partition in sorted(start.reached.keys() - end.reached.keys()):
        losses.gone(partition, start.reached[partition])
    planned = (_range(partition, start, end, losses) for partition in sorted(end.reached))
    return [each for each in planned if each is not None]


def _range(partition: Partition, start: StreamOffset, end: StreamOffset, losses: LossReports) -> ReadRange | None:
    until, reached, begin = end.reached[partition], start.reached.get(partition), end.begun.get(partition)
    if reached is not None and reached.log is not until.log:
        raise made_again(partition, reached)
    if begin is not None and reached is not None and reached < begin:
        losses.removed(partition, reached, begin)
    elif reached is not None:
        begin = reached
    if begin is None or begin > until:
        raise ConfigError(
            f"the checkpoint has a batch of {partition} from {begin!r} to {until!r}",
            topic=partition.topic, operation="plan a stream", fix="Use the checkpoint as the query wrote it",
        )  # fmt: skip
    return ReadRange(partition.topic, partition.number, str(begin), str(until)) if begin < until else None
