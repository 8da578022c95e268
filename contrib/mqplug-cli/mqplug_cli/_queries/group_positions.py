"""A group's positions in a topic, also where it has none yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mqplug


def positions(mq: mqplug.Client, group: str, topic: str, timeout: float) -> dict[int, mqplug.GroupPosition]:
    """Return the group's position in each partition that has one: in none, if it only has members there."""
    import mqplug

    try:
        return mq.positions(topic, group=group, timeout=timeout)
    except mqplug.GroupNotFound:
        return {}
