"""Retention as a topic's configuration, in which -1 means unlimited."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import ConfigEntry  # pyright: ignore[reportPrivateImportUsage]

DEFAULT_SEGMENT_S = 7 * 24 * 3600.0  # Kafka's default for segment.ms
DEFAULT_SEGMENT_BYTES = 1 << 30  # Kafka's default for segment.bytes
MIN_SEGMENT_BYTES = 1 << 20  # Kafka 4 refuses less
RETENTION_MS, RETENTION_BYTES, CLEANUP_POLICY = "retention.ms", "retention.bytes", "cleanup.policy"


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
        options["segment.ms"] = str(max(1000, round(seconds * 1000)))
    if size is not None and size < 4 * DEFAULT_SEGMENT_BYTES:
        options["segment.bytes"] = str(max(MIN_SEGMENT_BYTES, size // 4))
    return options


def retention_from_config(config: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """Return the fields of a ``TopicInfo`` that a topic's configuration fills."""
    if "delete" not in str(config[CLEANUP_POLICY].value):
        return {"retention": math.inf}  # compaction alone removes nothing by age
    milliseconds, size = int(str(config[RETENTION_MS].value)), int(str(config[RETENTION_BYTES].value))
    return {
        "retention": math.inf if milliseconds < 0 else milliseconds / 1000,
        "retention_bytes": None if size < 0 else size,
    }
