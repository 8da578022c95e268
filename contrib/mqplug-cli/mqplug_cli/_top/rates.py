"""The rates in and out between two samples, and the lag of a group in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import mqplug
from mqplug_cli._top.model import GroupSample, TopicSample

Distance: TypeAlias = Callable[[mqplug.Position, mqplug.Position], int]
"""Counts the messages between two positions of one log, as ``Client.distance`` does."""


def lag_of(position: mqplug.Position | None, marks: mqplug.Watermarks, distance: Distance) -> int:
    """Return how many messages of a partition lie between the position, or its first message, and the end."""
    if position is None:
        return marks.count
    if position.log is not marks.high.log:
        return 0  # the topic has been recreated
    return distance(max(position, marks.low), marks.high)


def stored_rates(before: TopicSample | None, now: TopicSample, distance: Distance | None) -> dict[int, float] | None:
    """Return the messages stored per second in each partition, or None if the samples do not show it."""
    if before is None or now.at <= before.at:
        return None
    seconds = now.at - before.at
    rates = {}
    for partition, marks in now.marks.items():
        stored = _stored(before.marks.get(partition), marks, distance)
        if stored is None:
            return None
        rates[partition] = stored / seconds
    return rates


def passed_rate(
    before: GroupSample | None, now: GroupSample, stored: float | None, distance: Distance | None
) -> float | None:
    """Return the messages per second that a group passed, or None if the samples do not show it.

    It is how far its positions moved, or without positions the rate ``stored`` less the growth of the lag. A group that
    was moved back passed none.
    """
    if before is None or now.at <= before.at:
        return None
    seconds = now.at - before.at
    if now.positions is not None and before.positions is not None and distance is not None:
        return _moved(before.positions, now.positions, distance) / seconds
    return None if stored is None else max(0.0, stored - (now.behind - before.behind) / seconds)


def _stored(before: mqplug.Watermarks | None, now: mqplug.Watermarks, distance: Distance | None) -> int | None:
    if before is None:
        return now.count  # a new partition
    if before.high.log is not now.high.log:
        return None  # the topic was deleted and recreated
    if distance is not None:
        return distance(before.high, now.high)
    return max(0, now.count - before.count) if before.low == now.low else None


def _moved(before: Mapping[int, mqplug.Position], now: Mapping[int, mqplug.Position], distance: Distance) -> int:
    both = [(before[each], now[each]) for each in now if each in before and before[each].log is now[each].log]
    return sum(distance(start, until) for start, until in both if start < until)
