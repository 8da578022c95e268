"""Where a read begins and ends: one point for all partitions, or one for each.

As in spark-sql-kafka, ``startingTimestamp`` wins over ``startingOffsetsByTimestamp``, and that over
``startingOffsets``; likewise for the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import attrs

from mqplug import EARLIEST, LATEST, ConfigError
from mqplug_spark._options.json_values import by_partition, load_object, short
from mqplug_spark._options.points import Point, parse_point
from mqplug_spark._options.times import is_relative, parse_time

Side = Literal["starting", "ending"]
CHECKPOINT: Final = "checkpoint:"


@attrs.frozen
class Bound:
    """A start or an end: ``everywhere``, or a point for each partition of each topic. ``option`` named it."""

    option: str
    everywhere: Point | None = None
    each: Mapping[str, Mapping[int, Point]] = attrs.field(factory=dict)

    def check_topics(self, topics: Sequence[str]) -> None:
        """Raise ``ConfigError`` unless points are named for exactly these topics."""
        if self.everywhere is not None:
            return
        missing, extra = set(topics) - set(self.each), set(self.each) - set(topics)
        if missing:
            raise ConfigError(
                f"{self.option} does not name the topic {min(missing)!r}", fix="Name every topic that is read"
            )
        if extra:
            raise ConfigError(f"{self.option} names the topic {min(extra)!r}, which is not read", fix="Leave it out")


def parse_bound(side: Side, found: Mapping[str, str], default: Point) -> Bound:
    """Return a read's start or end, from options whose names are in lower case."""
    moment, moments, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    bounds = [
        *(Bound(moment, parse_time(moment, "it", found[name])) for name in [moment.lower()] if name in found),
        *(_named(moments, found[name], parse_time) for name in [moments.lower()] if name in found),
        *(_offsets(side, offsets, found[name]) for name in [offsets.lower()] if name in found),
    ]
    return bounds[0] if bounds else Bound(offsets, default)


def _offsets(side: Side, option: str, text: str) -> Bound:
    word = text.strip().lower()
    words = {"latest": LATEST} | ({"earliest": EARLIEST} if side == "starting" else {})
    if word in words:
        return Bound(option, words[word])
    if is_relative(word):
        return Bound(option, parse_time(option, "it", word))
    if word.startswith("{"):
        return _named(option, text, parse_point)
    example = json.dumps({"orders": {"0": 42}})
    raise ConfigError(f"{option} must be {', '.join(reversed(words))}, or JSON such as {example}, not {short(text)}")


def _named(option: str, text: str, parse: Callable[[str, str, object], Point]) -> Bound:
    topics = load_object(option, text)
    each = {
        topic: {
            partition: parse(option, f"{topic}[{partition}]", value)
            for partition, value in by_partition(option, topic, values).items()
        }
        for topic, values in topics.items()
    }
    return Bound(option, each=each)
