"""The options of a write, checked before any request to a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

import attrs

from mqplug import ConfigError
from mqplug_spark._options.backend_settings import BackendSettings, parse_backend

Partitioner = Literal["murmur2", "crc32", "pulsar-java", "round_robin"]

MARKS_TOPIC: Final = "mqplug-spark-marks"
MAX_WRITER_LENGTH: Final = 200  # the name of a transaction adds the number of the task

_OF_STREAMS: Final = ("checkpointLocation", "queryName")
"""Options that Spark itself passes to the sink of a stream."""

_NAMES: Final = {
    name.lower(): name
    for name in ("topic", "partitioner", "writer", "number", "marksTopic", "includeHeaders", *_OF_STREAMS)
}


@attrs.frozen
class WriteMark:
    """The key of an idempotent write: rows that this writer stored under this number are not written again."""

    writer: str
    number: int


@attrs.frozen(kw_only=True)
class WriteOptions:
    """The options of a write."""

    backend: BackendSettings
    topic: str | None
    partitioner: Partitioner
    mark: WriteMark | None
    marks_topic: str = MARKS_TOPIC


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a batch write; case is ignored in their names. Raise ``ConfigError`` for invalid ones."""
    options = _parse(given, "save()")
    for name in _OF_STREAMS:
        if any(name.lower() == each.lower() for each in given):
            raise ConfigError(f"{name!r} is an option of streams, but this is a batch write", fix="Remove it")
    return options


def _parse(given: Mapping[str, str], call: str) -> WriteOptions:
    found = {name.lower(): text for name, text in given.items()}
    if found.keys() & {"path", "paths"} and not found.get("backend"):
        raise ConfigError(f"{call} was given a path", fix=f"Name the topic with option('topic', ...) and call {call}")
    backend = parse_backend(found, _NAMES)
    _check_flag(found, "includeHeaders")
    return WriteOptions(
        backend=backend, topic=_topic(found), partitioner=_partitioner(found), mark=_mark(found),
        marks_topic=found.get("markstopic", MARKS_TOPIC).strip() or MARKS_TOPIC,
    )  # fmt: skip


def parse_stream_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a streaming write, as ``parse_write_options`` does."""
    options = _parse(given, "start()")
    if options.mark is not None:
        raise ConfigError(
            "a streaming write does not accept 'writer' and 'number': it uses the ids of the query and the batch",
            fix="Remove both, or write with foreachBatch, where you can set them",
        )
    return options


def _check_flag(found: Mapping[str, str], name: str) -> None:
    text = found.get(name.lower(), "true")
    if text.lower() not in {"true", "false"}:
        raise ConfigError(f"{name} must be true or false, not {text!r}")


def _topic(found: Mapping[str, str]) -> str | None:
    topic = found.get("topic")
    if topic is None:
        return None
    if not topic.strip() or "," in topic:
        raise ConfigError(
            f"the option 'topic' must name one topic, not {topic!r}",
            fix="For several topics, remove the option and add a column 'topic' with the topic of each row",
        )
    return topic


def _partitioner(found: Mapping[str, str]) -> Partitioner:
    text = found.get("partitioner", "murmur2")
    for name in get_args(Partitioner):
        if text.lower() == name:
            chosen: Partitioner = name
            return chosen
    raise ConfigError(f"unknown partitioner {text!r}", fix=f"Choose from {', '.join(get_args(Partitioner))}")


def _mark(found: Mapping[str, str]) -> WriteMark | None:
    writer, number = found.get("writer"), found.get("number")
    if writer is None and number is None:
        return None
    if writer is None or number is None:
        given, missing = ("writer", "number") if number is None else ("number", "writer")
        raise ConfigError(
            f"the option {given!r} is given without {missing!r}",
            fix="Set both: the name of this job, and the number of this write among the job's writes",
        )
    if not 1 <= len(writer) <= MAX_WRITER_LENGTH or not writer.isprintable():
        raise ConfigError(f"the option 'writer' must be a name of 1 to {MAX_WRITER_LENGTH} printable characters")
    if not (number.isascii() and number.isdigit() and int(number) < 1 << 63):
        raise ConfigError(f"the option 'number' must be a whole number from 0 to {(1 << 63) - 1}, not {number!r}")
    return WriteMark(writer, int(number))
