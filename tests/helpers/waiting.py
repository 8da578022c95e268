"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], seconds: float = 15) -> None:
    """Wait until a condition becomes true, with a deadline."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.01)
