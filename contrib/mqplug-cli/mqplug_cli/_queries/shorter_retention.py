"""What a shorter retention would remove."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

from mqplug_cli._queries.counting import Count, between, stored, total

if TYPE_CHECKING:
    import mqplug


def loss(mq: mqplug.Client, topic: str, settings: Mapping[str, Any], timeout: float) -> str | None:
    """Return in words what these settings of a topic would remove, or None if it keeps no less than now.

    A limit that the backend does not report may be a longer one. Of the backend's own options nothing is known here.
    """
    info = mq.describe(topic, timeout=timeout)
    seconds, size = _seconds(settings.get("retention")), settings.get("retention_bytes")
    if _shorter(size, info.retention_bytes):
        return f"some of {stored(mq, topic, timeout)}"
    return str(_older(mq, topic, seconds, timeout)) if _shorter(seconds, info.retention) else None


def _older(mq: mqplug.Client, topic: str, seconds: float, timeout: float) -> Count:
    """Return how many messages are older than this."""
    import mqplug

    marks = mq.watermarks(topic, timeout=timeout)
    kept = mq.resolve(topic, mqplug.ago(seconds=seconds), timeout=timeout)
    return total(between(mq, marks[each].low, at, marks[each], timeout) for each, at in kept.items())


def _seconds(retention: timedelta | float | None) -> float | None:
    return retention.total_seconds() if isinstance(retention, timedelta) else retention


def _shorter(new: float | None, present: float | None) -> TypeGuard[float]:
    if new is None or math.isinf(new):
        return False
    return present is None or new < present
