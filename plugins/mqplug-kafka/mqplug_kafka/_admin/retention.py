"""Retention as a topic's configuration, in which -1 means unlimited."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import (
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigSource,  # pyright: ignore[reportPrivateImportUsage]
)

DEFAULT_SEGMENT_S = 7 * 24 * 3600.0  # Kafka's default for segment.ms
DEFAULT_SEGMENT_BYTES = 1 << 30  # Kafka's default for segment.bytes
MIN_SEGMENT_BYTES = 1 << 20  # Kafka 4 refuses less
RETENTION_MS, RETENTION_BYTES, CLEANUP_POLICY = "retention.ms", "retention.bytes", "cleanup.policy"
SEGMENT_MS, SEGMENT_BYTES = "segment.ms", "segment.bytes"


def retention_options(seconds: float | None, size: int | None) -> dict[str, str]:
    """Return the configuration for the given limits. None leaves a limit to the cluster."""
    options = {}
    if seconds is not None:
        options[RETENTION_MS] = str(-1 if math.isinf(seconds) else round(seconds * 1000))
    if size is not None:
        options[RETENTION_BYTES] = str(size)
    return options


def segment_options(seconds: float | None, size: int | None) -> dict[str, str]:
    """Return the configuration of segments for a short retention: Kafka keeps the segment it writes to."""
    options = {}
    if seconds is not None and seconds < DEFAULT_SEGMENT_S:
        options[SEGMENT_MS] = str(max(1000, round(seconds * 1000)))
    if size is not None and size < 4 * DEFAULT_SEGMENT_BYTES:
        options[SEGMENT_BYTES] = str(max(MIN_SEGMENT_BYTES, size // 4))
    return options


def changed_segment_options(
    present: Mapping[str, ConfigEntry], seconds: float | None, size: int | None
) -> dict[str, str | None]:
    """Return the segment settings to change with these new limits; None for the cluster's default.

    A topic keeps segment settings of its own, other than those that its present limits had brought about.
    """
    wanted = segment_options(seconds, size)
    if not present:
        return {**wanted}
    before = segment_options(*_limits(present))
    changed: dict[str, str | None] = {}
    for name, limit in ((SEGMENT_MS, seconds), (SEGMENT_BYTES, size)):
        own = ConfigSource(present[name].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
        value = str(present[name].value) if own else None
        if limit is not None and value in {None, before.get(name)} and value != wanted.get(name):
            changed[name] = wanted.get(name)
    return changed


def fields_from_config(config: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """Return the fields of a ``TopicInfo`` that a topic's configuration fills."""
    options = {name: each.value for name, each in sorted(config.items()) if _is_own(each)}
    if "delete" not in str(config[CLEANUP_POLICY].value):
        return {"retention": math.inf, "options": options}  # compaction alone removes nothing by age
    seconds, size = _limits(config)
    return {"retention": seconds, "retention_bytes": size, "options": options}


def _is_own(entry: ConfigEntry) -> bool:
    """Return whether a setting is the topic's own, and no retention."""
    own = ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    return own and entry.value is not None and entry.name not in {RETENTION_MS, RETENTION_BYTES}


def _limits(config: Mapping[str, ConfigEntry]) -> tuple[float, int | None]:
    """Return the retention in seconds, and in bytes if it is limited."""
    milliseconds, size = int(str(config[RETENTION_MS].value)), int(str(config[RETENTION_BYTES].value))
    return math.inf if milliseconds < 0 else milliseconds / 1000, None if size < 0 else size
