"""The options of a batch or streaming read, checked before any request to a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from mqplug import EARLIEST, LATEST, ConfigError
from mqplug_spark._options.backend_settings import BackendSettings, parse_backend
from mqplug_spark._options.bounds import CHECKPOINT, Bound, parse_bound, parse_span
from mqplug_spark._options.topic_selection import SELECTING, TopicSelection, parse_selection

Kind = Literal["batch", "stream"]
Strategy = Literal["error", "latest"]

_OF_BOTH: Final = (
    *SELECTING,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "includeId",
    "failOnDataLoss",
    "pollTimeoutMs",
    "kafkaConsumer.pollTimeoutMs",
)
_OF_BATCHES: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_OF_STREAMS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commitGroup")
_REFUSED: Final = {
    "fetchOffset.numRetries": "requests are retried until their timeout",
    "fetchOffset.retryIntervalMs": "requests are retried until their timeout",
    "groupIdPrefix": "reads use no group; set commitGroup on a stream so that lag tools see it",
}
_NAMES: Final = {name.lower(): name for name in (*_OF_BOTH, *_OF_BATCHES, *_OF_STREAMS, *_REFUSED)}

_OF_TABLES: Final = frozenset(
    {"provider", "path", "paths", "location", "owner", "external", "comment", "collation", "serialization.format"}
)
"""Properties that Spark itself adds for a table in its catalog."""

DEFAULT_POLL_TIMEOUT_MS: Final = 120_000
DEFAULT_MAX_TRIGGER_DELAY: Final = "15m"
MAX_COUNT: Final = 2**63 - 1


@attrs.frozen(kw_only=True)
class ReadOptions:
    """The options of a read. Times are in seconds. ``checkpoint`` belongs to a stopped query of spark-sql-kafka."""

    backend: BackendSettings
    topics: TopicSelection
    starting: Bound
    ending: Bound
    timestamp_strategy: Strategy | None
    checkpoint: str | None
    min_partitions: int | None
    max_records_per_partition: int | None
    include_headers: bool
    include_id: bool
    fail_on_data_loss: bool
    poll_timeout: float
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    commit_group: str | None


def parse_options(given: Mapping[str, str], kind: Kind | None = None) -> ReadOptions:
    """Parse the options that Spark passes; case is ignored in their names. Raise ``ConfigError`` for invalid ones.

    ``kind`` is None if Spark asks only for the columns, because the kind of read is not yet known.
    """
    found = {name.lower(): text for name, text in given.items()}
    if "provider" in found:
        found = _of_catalog(found)
    elif found.keys() & {"path", "paths"} and not found.get("backend"):
        raise ConfigError("load() was given a path", fix="Name the topic with option('subscribe', ...) and call load()")
    backend = parse_backend(found, _NAMES)
    _check_meaning(found, kind)
    topics = parse_selection(found)
    checkpoint = _checkpoint(found)
    least, most = _limits(found)
    default = LATEST if kind == "stream" else EARLIEST
    starting = parse_bound("starting", found, default) if checkpoint is None else Bound("startingOffsets", default)
    ending = parse_bound("ending", found, LATEST)
    for bound in (starting, ending) if topics.pattern is None else ():
        bound.check_topics(topics.names)
    return ReadOptions(
        backend=backend, topics=topics, starting=starting, ending=ending, checkpoint=checkpoint,
        timestamp_strategy=_strategy(found),
        min_partitions=_count(found, "minPartitions"),
        max_records_per_partition=_count(found, "maxRecordsPerPartition"),
        include_headers=_flag(found, "includeHeaders", default=False),
        include_id=_flag(found, "includeId", default=False),
        fail_on_data_loss=_flag(found, "failOnDataLoss", default=True),
        poll_timeout=_poll_timeout(found) / 1000,
        commit_group=_commit_group(found),
        min_offsets_per_trigger=least,
        max_offsets_per_trigger=most,
        max_trigger_delay=parse_span("maxTriggerDelay", found.get("maxtriggerdelay", DEFAULT_MAX_TRIGGER_DELAY)) / 1000,
    )  # fmt: skip


def _of_catalog(found: Mapping[str, str]) -> dict[str, str]:
    """Return the options that the user gave in ``CREATE TABLE ... USING mqplug OPTIONS (...)``.

    Spark adds properties of the table, such as its location, and may repeat an option as ``option.NAME``.
    """
    given = {name.removeprefix("option."): text for name, text in found.items()}
    return {name: text for name, text in given.items() if name not in _OF_TABLES}


def _check_meaning(found: Mapping[str, str], kind: Kind | None) -> None:
    """Raise ``ConfigError`` for an option that has no meaning here, or none for this kind of read."""
    for name, reason in _REFUSED.items():
        if name.lower() in found:
            raise ConfigError(f"{name!r} is not supported: {reason}", fix="Remove it")
    for name in _OF_STREAMS if kind == "batch" else ():
        if name.lower() in found:
            raise ConfigError(f"{name!r} is an option of streams, but this is a batch read", fix="Remove it")
    for name in _OF_BATCHES if kind == "stream" else ():
        if name.lower() in found:
            raise ConfigError(f"{name!r} is an option of batch reads: a stream has no end", fix="Remove it")
    if kind == "batch" and _checkpoint(found) is not None:
        raise ConfigError("startingOffsets names a checkpoint, which is for streams", fix="Write earliest or JSON")


def _checkpoint(found: Mapping[str, str]) -> str | None:
    text = found.get("startingoffsets", "").strip()
    if not text.startswith(CHECKPOINT):
        return None
    rivals = {"startingtimestamp", "startingoffsetsbytimestamp"} & found.keys()
    path = text.removeprefix(CHECKPOINT).strip()
    if rivals or not path:
        reason = f"{_NAMES[min(rivals)]!r} is also given" if rivals else "its path is missing"
        raise ConfigError(f"startingOffsets names a checkpoint, but {reason}", fix="Write only checkpoint:/path")
    return path


def _strategy(found: Mapping[str, str]) -> Strategy | None:
    match found.get("startingoffsetsbytimestampstrategy", "").lower():
        case "":
            return None
        case "error":
            return "error"
        case "latest":
            return "latest"
        case other:
            raise ConfigError(f"startingOffsetsByTimestampStrategy must be error or latest, not {other!r}")


def _limits(found: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the number of messages that a trigger waits for, and the most that it reads."""
    least, most = _count(found, "minOffsetsPerTrigger"), _count(found, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger is {least}, but maxOffsetsPerTrigger is only {most}")
    return least, most


def _commit_group(found: Mapping[str, str]) -> str | None:
    if "commitgroup" not in found:
        return None
    name = found["commitgroup"].strip()
    if not name:
        raise ConfigError("commitGroup is empty", fix="Name a group, or remove the option")
    return name


def _flag(found: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = found.get(name.lower(), str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise ConfigError(f"{name} must be true or false, not {text!r}")
    return text == "true"


def _count(found: Mapping[str, str], name: str) -> int | None:
    if name.lower() not in found:
        return None
    text = found[name.lower()].strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= MAX_COUNT):
        raise ConfigError(f"{name} must be a whole number greater than 0, not {text[:60]!r}")
    return int(text)


def _poll_timeout(found: Mapping[str, str]) -> int:
    names = [name for name in ("pollTimeoutMs", "kafkaConsumer.pollTimeoutMs") if name.lower() in found]
    if len(names) > 1:
        raise ConfigError(f"{names[0]!r} and {names[1]!r} are the same option", fix="Remove one")
    if not names:
        return DEFAULT_POLL_TIMEOUT_MS
    text = found[names[0].lower()].strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= 86_400_000):
        raise ConfigError(f"{names[0]} must be a number of milliseconds from 1 to 86400000, not {text[:60]!r}")
    return int(text)
