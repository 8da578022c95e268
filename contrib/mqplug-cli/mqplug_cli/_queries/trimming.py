"""What a trim of a topic would remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mqplug_cli._queries.counting import Count, between

if TYPE_CHECKING:
    import mqplug


class Removal(NamedTuple):
    """The messages of one partition from the first that is retained up to a position."""

    partition: int
    start: mqplug.Position
    until: mqplug.Position
    messages: Count


def removals(
    mq: mqplug.Client, topic: str, before: mqplug.Start, partitions: Sequence[int] | None, timeout: float
) -> list[Removal]:
    """Return what would be removed from each partition, or from these. Nothing is removed."""
    wanted = mq.resolve(topic, before, partitions=partitions or None, missing="next", timeout=timeout)
    marks = mq.watermarks(topic, timeout=timeout)
    return [
        Removal(each, marks[each].low, at, between(mq, marks[each].low, at, marks[each], timeout))
        for each, at in sorted(wanted.items())
    ]
