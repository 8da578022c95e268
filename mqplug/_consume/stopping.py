"""SIGTERM: stops what runs in the main thread, such as the handlers of a consumer."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

Stop = Callable[[], None]

_stops: Final[list[Stop]] = []
"""What SIGTERM calls. Blocks may end in any order: those of an event loop overlap."""
_before: Any = None


@contextmanager
def stopping_on_sigterm(stop: Stop) -> Iterator[None]:
    """Call ``stop`` on SIGTERM within this block, and any handler set before. Works in the main thread only."""
    global _before
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _stops.append(stop)
    if len(_stops) == 1:
        _before = signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        yield
    finally:
        _stops.remove(stop)
        if not _stops:
            signal.signal(signal.SIGTERM, _before)


def _on_sigterm(number: int, frame: Any) -> None:
    for stop in _stops:
        stop()
    if callable(_before):
        _before(number, frame)
