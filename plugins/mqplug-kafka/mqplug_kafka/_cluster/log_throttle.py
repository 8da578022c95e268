"""The native client's log, without its repetitions: it says several times a second that a broker cannot be reached."""

from __future__ import annotations

import logging
import re
import time

REPEAT_AFTER_S = 10.0  # seconds in which no line comes twice
MAX_REMEMBERED_LINES = 1000  # lines that are remembered

_NUMBERS = re.compile(r"\d+")


class LogThrottle(logging.Filter):
    """Lets a line pass unless its like has passed a moment ago; what differs in numbers only is alike."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        like, now = _NUMBERS.sub("", record.getMessage()), time.monotonic()
        if now - self._passed.get(like, -REPEAT_AFTER_S) < REPEAT_AFTER_S:
            return False
        if len(self._passed) >= MAX_REMEMBERED_LINES:
            self._passed.clear()
        self._passed[like] = now
        return True


logger = logging.getLogger("mqplug.kafka")
logger.addHandler(logging.NullHandler())
logger.addFilter(LogThrottle())
"""Where the native client's own log goes, instead of stderr."""
