"""The topics of a read: by their names, by a pattern, or partition by partition, in JSON.

Other options also use JSON by topic and partition, to name points. Duplicate names in it are errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from mqplug import ConfigError, matching

IN_A_TABLE: Final = (
    "Spark loses the options of CREATE TABLE: give them with each query, as in SELECT * FROM orders WITH (url = '...', "
    "subscribe = 'orders'), or create a TEMPORARY VIEW. In Python, set option('subscribe', 'orders,payments')"
)
"""The fix if Spark passes no options at all."""

SELECTING: Final = ("subscribe", "topic", "subscribePattern", "assign")

_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


@attrs.frozen
class TopicSelection:
    """The topics of a read: ``names``, or those whose whole name matches ``pattern``, a Python regular expression.

    ``partitions`` lists the assigned partitions of each topic. If it is None, all partitions are read.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: Mapping[str, tuple[int, ...]] | None = None


def parse_selection(found: Mapping[str, str]) -> TopicSelection:
    """Return the topics of the one selecting option in ``found``, whose option names are in lower case."""
    given = [name for name in SELECTING if name.lower() in found]
    if not given:
        raise ConfigError(
            "no topic is selected: the option 'subscribe' is missing",
            fix=IN_A_TABLE if not found else "Set option('subscribe', 'orders,payments')",
        )
    if len(given) > 1:
        raise ConfigError(f"{given[0]!r} and {given[1]!r} both select topics", fix="Remove one")
    name, text = given[0], found[given[0].lower()]
    if name == "subscribePattern":
        return TopicSelection(pattern=_pattern(text))
    return _assigned(text) if name == "assign" else TopicSelection(names=_names(name, text))


def _names(option: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(names):
        raise ConfigError(f"{option} has an empty topic name: {text!r}", fix="Separate topics with single commas")
    return names


def _pattern(text: str) -> str:
    try:
        return matching(text).pattern
    except ValueError as error:
        raise ConfigError(f"subscribePattern: {error}", fix="Write a Python regular expression") from None


def _assigned(text: str) -> TopicSelection:
    named = load_object("assign", text)
    if not named:
        raise ConfigError("assign names no topic", fix='Write JSON such as {"orders": [0, 1]}')
    partitions = {topic: _partitions(topic, each) for topic, each in named.items()}
    return TopicSelection(names=tuple(partitions), partitions=partitions)


def _partitions(topic: str, value: object) -> tuple[int, ...]:
    numbers = value if isinstance(value, list) else []
    if not topic or not numbers or not all(type(number) is int and number >= 0 for number in numbers):
        raise ConfigError(
            f"assign: the topic {topic!r} must have a list of partitions, not {short(value)}",
            fix='Write JSON such as {"orders": [0, 1]}',
        )
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"assign names a partition of {topic!r} twice")
    return tuple(sorted(numbers))


def load_object(option: str, text: str) -> dict[str, Any]:
    """Parse the JSON object in an option. Raise ``ConfigError`` if the text is not one."""
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _once(option, pairs))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{option} is not JSON: {error}", fix="Write {topic: {partition: ...}}") from None
    return as_object(option, option, value)


def as_object(option: str, where: str, value: object) -> dict[str, Any]:
    """Return a value that must be a JSON object."""
    if not isinstance(value, dict):
        raise ConfigError(f"{option}: {where} must be a JSON object, not {short(value)}")
    return value


def by_partition(option: str, topic: str, value: object) -> Mapping[int, Any]:
    """Return the values of a topic by partition."""
    found = as_object(option, f"the topic {topic!r}", value)
    for partition in found:
        if not _PARTITION.fullmatch(partition):
            raise ConfigError(f"{option}: {partition!r} is not a partition of {topic!r}: it must be a number")
    return {int(partition): each for partition, each in found.items()}


def short(value: object) -> str:
    """Return a short text of a value for an error."""
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _once(option: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise ``ConfigError`` for a duplicate name: plain JSON would take the last one and hide the mistake."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{option} names {twice!r} twice")
    return made
