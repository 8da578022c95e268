"""How far groups are behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from mqplug.cli._output.positions import position_text
from mqplug.cli._queries.group_positions import positions

if TYPE_CHECKING:
    import mqplug


class PartitionLag(NamedTuple):
    """A group's lag in one partition. It is None where the group has no position, as one with a new member only."""

    group: str
    topic: str
    partition: int
    position: str | None
    high: str | None
    lag: int | None


def lags(mq: mqplug.Client, group: str, topics: Sequence[str], timeout: float) -> list[PartitionLag]:
    """Return the lags of a group in these topics, where it has to have positions; without any, in all of its topics."""
    names = list(topics or mq.describe_group(group, timeout=timeout).topics)
    find = _stored if topics else positions
    stored = {topic: find(mq, group, topic, timeout) for topic in names}
    found = mq.lag([topic for topic in names if stored[topic]], group=group, timeout=timeout)
    marks = mq.watermarks(names, timeout=timeout)
    return [
        PartitionLag(
            group, topic, partition,
            position_text(stored[topic][partition].position) if partition in stored[topic] else None,
            position_text(each.high), found[topic][partition] if topic in found else None,
        )
        for topic in names
        for partition, each in sorted(marks[topic].items())
    ]  # fmt: skip


def lags_of_all(mq: mqplug.Client, timeout: float) -> Iterator[PartitionLag]:
    """Yield the lags of every group in all of its topics."""
    import mqplug

    for info in mq.groups(timeout=timeout):
        with suppress(mqplug.GroupNotFound):  # deleted meanwhile
            yield from lags(mq, info.name, (), timeout)


def behind(found: Sequence[PartitionLag]) -> dict[str, int]:
    """Return by how many messages each group is behind."""
    counts: dict[str, int] = {}
    for each in found:
        counts[each.group] = counts.get(each.group, 0) + (each.lag or 0)
    return counts


def _stored(mq: mqplug.Client, group: str, topic: str, timeout: float) -> dict[int, mqplug.GroupPosition]:
    return mq.positions(topic, group=group, timeout=timeout)
