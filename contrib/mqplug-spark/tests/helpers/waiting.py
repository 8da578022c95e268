"""Waits for the thing itself, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition is true. Fail when the time is over."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not true within {seconds} s"
        time.sleep(0.01)
