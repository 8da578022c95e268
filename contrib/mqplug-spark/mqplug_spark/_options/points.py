"""Parses the start and the end of a read as spark-sql-kafka writes them: a word, or JSON that names every partition.

A point is -2 (the earliest), -1 (the latest), an offset, or the text of a position or a message id, which means the
point just before that message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from mqplug import ConfigError, InvalidMessageId, MessageId, Position

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1

Point = int | Position
OffsetsOption = Literal["earliest", "latest"] | Mapping[str, Mapping[int, Point]]

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def parse_offsets(option: str, text: str, topics: Sequence[str]) -> OffsetsOption:
    """Return the word or the points in an option's text. Raise ``ConfigError`` with the reason if it is invalid."""
    word = text.strip().lower()
    if word == "latest":
        return "latest"
    if word == "earliest" and option == "startingOffsets":
        return "earliest"
    if not word.startswith("{"):
        words = "earliest, latest" if option == "startingOffsets" else "latest"
        raise ConfigError(f"{option} must be {words}, or JSON such as {_example(topics)}, not {_short(text)}")
    named = _object(option, option, _load(option, text))
    _check_topics(option, named, topics)
    return {topic: _points(option, topic, points) for topic, points in named.items()}


def _load(option: str, text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _once(option, pairs))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{option} is not JSON: {error}", fix="Write {topic: {partition: offset}}") from None


def _once(option: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that occurs twice, where JSON would take the last one and hide a mistake."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{option} names {twice!r} twice")
    return made


def _object(option: str, where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{option}: {where} must be a JSON object, not {_short(value)}")
    return value


def _check_topics(option: str, named: Mapping[str, Any], topics: Sequence[str]) -> None:
    missing, extra = set(topics) - set(named), set(named) - set(topics)
    if missing:
        raise ConfigError(f"{option} does not name the topic {min(missing)!r}", fix="Name every topic that is read")
    if extra:
        raise ConfigError(f"{option} names the topic {min(extra)!r}, which is not read", fix="Leave it out")


def _points(option: str, topic: str, value: object) -> dict[int, Point]:
    found: dict[int, Point] = {}
    for partition, point in _object(option, f"the topic {topic!r}", value).items():
        if not _NUMBER.fullmatch(partition):
            raise ConfigError(f"{option}: {partition!r} is not a partition of {topic!r}: it must be a number")
        found[int(partition)] = _point(option, f"{topic}[{partition}]", point)
    return found


def _point(option: str, where: str, value: object) -> Point:
    if isinstance(value, str):
        return _place(option, where, value)
    lowest = EARLIEST_OFFSET if option == "startingOffsets" else LATEST_OFFSET
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise ConfigError(
            f"{option}: {where} is {_short(value)}",
            fix=f"Write an offset, {'-2 for the earliest, ' if lowest == EARLIEST_OFFSET else ''}-1 for the latest, "
            f"or the text of a position or a message id",
        )
    return value


def _place(option: str, where: str, text: str) -> Position:
    try:
        if text.startswith("m"):
            message_id = MessageId.parse(text)
            return Position(message_id.log, message_id.coordinates)
        return Position.parse(text)
    except InvalidMessageId as error:
        raise ConfigError(f"{option}: {where}: {error.message}", fix=error.fix) from None


def _example(topics: Sequence[str]) -> str:
    return json.dumps({topics[0]: {"0": 42}})


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")
