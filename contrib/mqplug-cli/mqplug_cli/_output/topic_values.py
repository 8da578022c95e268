"""Topics as rows and values: sizes and times, for people and for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mqplug

FOREVER = "forever"
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))
_SIZES = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def topic_value(info: mqplug.TopicInfo) -> dict[str, Any]:
    """Return a topic's settings as JSON: retention in seconds, or "forever"; None where they are not reported."""
    endless = info.retention is not None and math.isinf(info.retention)
    return {
        "topic": info.name,
        "partitions": len(info.logs),
        "retention": FOREVER if endless else info.retention,
        "retention_bytes": info.retention_bytes,
        "options": dict(info.options),
    }


def settings_text(info: mqplug.TopicInfo) -> str:
    """Return a topic's settings in one line."""
    count = len(info.logs)
    return f"{count} partition{'' if count == 1 else 's'}, {retention_text(info)}"


def retention_text(info: mqplug.TopicInfo) -> str:
    """Return how long messages are kept, and how much of each partition, for people."""
    limits = [_time_text(info.retention)] if info.retention is not None else []
    limits += [f"{_size_text(info.retention_bytes)} of each partition"] if info.retention_bytes is not None else []
    return f"retention {', '.join(limits) or 'as the backend has it'}"


def _time_text(seconds: float) -> str:
    if math.isinf(seconds):
        return FOREVER
    return next((f"{seconds / unit:g}{name}" for unit, name in _UNITS if seconds >= unit), f"{seconds:g}s")


def _size_text(size: int) -> str:
    return next((f"{size / unit:.4g} {name}" for unit, name in _SIZES if size >= unit), f"{size} bytes")
