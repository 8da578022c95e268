"""Finds the partitions that a query reads, as they are now."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mqplug import Client, TopicNotFound, Watermarks
from mqplug_spark._options.topic_selection import TopicSelection
from mqplug_spark._ranges.selected_watermarks import selected_names, selected_watermarks
from mqplug_spark._stream_read.stream_offsets import Partition


def present(client: Client, selection: TopicSelection, known: Collection[str] = ()) -> dict[Partition, Watermarks]:
    """Return the watermarks of all partitions that are read.

    A topic that is not there is ``TopicNotFound``, unless it is ``known`` to the query: that is a loss, and left out.
    """
    try:
        found = selected_watermarks(client, selection)
    except TopicNotFound:
        found = _one_by_one(client, selection, known)
    return {Partition(topic, number): mark for topic, marks in found.items() for number, mark in marks.items()}


def _one_by_one(
    client: Client, selection: TopicSelection, known: Collection[str]
) -> dict[str, Mapping[int, Watermarks]]:
    found: dict[str, Mapping[int, Watermarks]] = {}
    for name in selected_names(client, selection):
        partitions = None if selection.partitions is None else {name: selection.partitions[name]}
        try:
            found |= selected_watermarks(client, TopicSelection(names=(name,), partitions=partitions))
        except TopicNotFound:
            if selection.pattern is None and name not in known:
                raise
    return found
