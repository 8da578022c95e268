"""Asks for the watermarks of the partitions that a read selects."""

from __future__ import annotations

from collections.abc import Mapping

from mqplug import Client, ConfigError, Watermarks, matching
from mqplug_spark._options.topic_selection import TopicSelection
from mqplug_spark._options.write_options import MARKS_TOPIC

TopicMarks = Mapping[str, Mapping[int, Watermarks]]


def selected_watermarks(client: Client, selection: TopicSelection) -> TopicMarks:
    """Return the watermarks by topic and partition, in the order of the selection.

    A named topic that does not exist is ``TopicNotFound``; a pattern may match none.
    """
    names = selected_names(client, selection)
    marks: TopicMarks = client.watermarks(names) if names else {}
    if selection.partitions is None:
        return {topic: marks[topic] for topic in names}
    return {topic: _assigned(topic, marks[topic], selection.partitions[topic]) for topic in names}


def selected_names(client: Client, selection: TopicSelection) -> tuple[str, ...]:
    """Return the names of the selected topics; those of a pattern as they are now, sorted."""
    if selection.pattern is None:
        return selection.names
    return tuple(name for name in client.topics(matching(selection.pattern)) if name != MARKS_TOPIC)


def _assigned(topic: str, marks: Mapping[int, Watermarks], wanted: tuple[int, ...]) -> Mapping[int, Watermarks]:
    missing = set(wanted) - set(marks)
    if missing:
        raise ConfigError(
            f"assign names partition {min(missing)} of {topic!r}, which has {len(marks)}",
            topic=topic, fix="Leave it out, or add partitions to the topic",
        )  # fmt: skip
    return {partition: marks[partition] for partition in wanted}
