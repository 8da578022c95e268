"""The options of a read, checked before any request to a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from mqplug import ConfigError
from mqplug_spark._options.backend_settings import BackendSettings, parse_backend
from mqplug_spark._options.points import OffsetsOption, parse_offsets

_NAMES: Final = {
    name.lower(): name
    for name in (
        "subscribe",
        "topic",
        "startingOffsets",
        "endingOffsets",
        "includeHeaders",
        "failOnDataLoss",
        "pollTimeoutMs",
    )
}


@attrs.frozen(kw_only=True)
class ReadOptions:
    """The options of a read."""

    backend: BackendSettings
    topics: tuple[str, ...]
    starting: OffsetsOption
    ending: OffsetsOption
    include_headers: bool
    fail_on_data_loss: bool
    poll_timeout: float


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the options that Spark passes, whose names ignore case. Raise ``ConfigError`` for invalid ones."""
    found = {name.lower(): text for name, text in given.items()}
    if found.keys() & {"path", "paths"} and not found.get("backend"):
        raise ConfigError("load() was given a path", fix="Name the topic with option('subscribe', ...), and load()")
    backend = parse_backend(found, _NAMES)
    topics = _topics(found)
    return ReadOptions(
        backend=backend,
        topics=topics,
        starting=parse_offsets("startingOffsets", found.get("startingoffsets", "earliest"), topics),
        ending=parse_offsets("endingOffsets", found.get("endingoffsets", "latest"), topics),
        include_headers=_flag(found, "includeHeaders", default=False),
        fail_on_data_loss=_flag(found, "failOnDataLoss", default=True),
        poll_timeout=_milliseconds(found, "pollTimeoutMs", default=120_000) / 1000,
    )


def _required(found: Mapping[str, str], name: str, example: str) -> str:
    text = found.get(name, "")
    if not text:
        raise ConfigError(f"the option {name!r} is missing", fix=f"Write option({name!r}, {example!r})")
    return text


def _topics(found: Mapping[str, str]) -> tuple[str, ...]:
    if "subscribe" in found and "topic" in found:
        raise ConfigError("'subscribe' and 'topic' are the same option, but both are given", fix="Leave one out")
    text = found["topic"] if "topic" in found else _required(found, "subscribe", "orders,payments")
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(topics):
        raise ConfigError(f"{text!r} contains an empty topic name", fix="Separate topics by single commas")
    return topics


def _flag(found: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = found.get(name.lower(), str(default)).lower()
    if text not in {"true", "false"}:
        raise ConfigError(f"{name} must be true or false, not {text!r}")
    return text == "true"


def _milliseconds(found: Mapping[str, str], name: str, *, default: int) -> int:
    text = found.get(name.lower(), str(default))
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 86_400_000):
        raise ConfigError(f"{name} must be a number of milliseconds from 1 to 86400000, not {text!r}")
    return int(text)
