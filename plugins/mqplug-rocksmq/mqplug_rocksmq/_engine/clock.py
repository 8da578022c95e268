"""The wall clock of a store, in milliseconds."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000
