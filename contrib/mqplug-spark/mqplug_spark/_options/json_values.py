"""JSON in options: objects by topic and partition, in which nothing is named twice."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from mqplug import ConfigError

_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def load_object(option: str, text: str) -> dict[str, Any]:
    """Return the object that an option's text is. Raise ``ConfigError`` if it is none."""
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _once(option, pairs))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{option} is not JSON: {error}", fix="Write {topic: {partition: ...}}") from None
    return as_object(option, option, value)


def as_object(option: str, where: str, value: object) -> dict[str, Any]:
    """Return a value that has to be an object."""
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
    """Return a value for an error, shortened."""
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _once(option: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that occurs twice, where JSON would take the last one and hide a mistake."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{option} names {twice!r} twice")
    return made
