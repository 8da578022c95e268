"""The logger of the client, which drops repeated lines: an unreachable broker causes several a second."""

from __future__ import annotations

import logging
import re
import time

REPEAT_AFTER_S = 10.0  # no line is logged twice within this time
MAX_REMEMBERED_LINES = 1000

_NUMBERS = re.compile(r"\d+")


class LogThrottle(logging.Filter):
    """A filter that drops a line if one that differs only in numbers passed less than ``REPEAT_AFTER_S`` ago."""

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
"""The client's logger, instead of stderr."""
