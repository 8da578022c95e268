"""Retention, as a topic's configuration says it: -1 is for ever, and without limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import ConfigEntry  # pyright: ignore[reportPrivateImportUsage]

DEFAULT_SEGMENT_S = 7 * 24 * 3600.0  # seconds that a segment is written to, unless a cluster says otherwise
DEFAULT_SEGMENT_BYTES = 1 << 30  # bytes of a segment, unless a cluster says otherwise
MIN_SEGMENT_BYTES = 1 << 20  # bytes: Kafka 4 takes no less
RETENTION_MS, RETENTION_BYTES, CLEANUP_POLICY = "retention.ms", "retention.bytes", "cleanup.policy"


def retention_options(seconds: float | None, size: int | None) -> dict[str, str]:
    """The configuration for what was asked; what was not is left to the cluster."""
    options = {}
    if seconds is not None:
        options[RETENTION_MS] = str(-1 if math.isinf(seconds) else round(seconds * 1000))
    if size is not None:
        options[RETENTION_BYTES] = str(size)
    return options


def segment_options(seconds: float | None, size: int | None) -> dict[str, str]:
    """Segments small enough for a short retention to be seen: Kafka removes none that is still written to."""
    options = {}
    if seconds is not None and seconds < DEFAULT_SEGMENT_S:
        options["segment.ms"] = str(max(1000, round(seconds * 1000)))
    if size is not None and size < 4 * DEFAULT_SEGMENT_BYTES:
        options["segment.bytes"] = str(max(MIN_SEGMENT_BYTES, size // 4))
    return options


def retention_from_config(config: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """The fields of a ``TopicInfo`` that a topic's configuration fills."""
    if "delete" not in str(config[CLEANUP_POLICY].value):
        return {"retention": math.inf}  # compaction alone ends nothing by its age
    milliseconds, size = int(str(config[RETENTION_MS].value)), int(str(config[RETENTION_BYTES].value))
    return {
        "retention": math.inf if milliseconds < 0 else milliseconds / 1000,
        "retention_bytes": None if size < 0 else size,
    }
