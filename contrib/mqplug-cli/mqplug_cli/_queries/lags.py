"""How far groups are behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from mqplug_cli._output.positions import position_text
from mqplug_cli._queries.group_positions import positions

if TYPE_CHECKING:
    import mqplug

    Positions = Mapping[int, mqplug.GroupPosition]


class PartitionLag(NamedTuple):
    """A group's lag in one partition. It is None where the group has no position, as one with a new member only."""

    group: str
    topic: str
    partition: int
    position: str | None
    high: str | None
    lag: int | None


def lags(mq: mqplug.Client, group: str, topics: Sequence[str], timeout: float) -> list[PartitionLag]:
    """Return the lags of a group in these topics, where it must have positions; without any, in all of its topics.

    Of all of its topics, those that are deleted meanwhile are left out.
    """
    import mqplug

    if topics:
        return _lags(mq, group, {each: mq.positions(each, group=group, timeout=timeout) for each in topics}, timeout)
    names = mq.describe_group(group, timeout=timeout).topics
    try:
        return _lags(mq, group, {each: positions(mq, group, each, timeout) for each in names}, timeout)
    except mqplug.TopicNotFound:
        return [row for each in names for row in _lags_if_there(mq, group, each, timeout)]


def _lags_if_there(mq: mqplug.Client, group: str, topic: str, timeout: float) -> list[PartitionLag]:
    import mqplug

    try:
        return _lags(mq, group, {topic: positions(mq, group, topic, timeout)}, timeout)
    except mqplug.TopicNotFound:
        return []


def _lags(mq: mqplug.Client, group: str, stored: Mapping[str, Positions], timeout: float) -> list[PartitionLag]:
    """Return the lags in the topics of which these are the stored positions."""
    found = mq.lag([topic for topic in stored if stored[topic]], group=group, timeout=timeout)
    marks = mq.watermarks(list(stored), timeout=timeout)
    return [
        PartitionLag(
            group, topic, partition,
            position_text(at[partition].position) if partition in at else None,
            position_text(each.high), found[topic][partition] if topic in found else None,
        )
        for topic, at in stored.items()
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
