"""The native client's log, without its repetitions: it says several times a second that a broker cannot be reached."""

from __future__ import annotations

import logging
import re
import time

EVERY = 10.0  # seconds in which no line comes twice
MOST = 1000  # lines that are remembered

_NUMBERS = re.compile(r"\d+")


class Calm(logging.Filter):
    """Lets a line pass unless its like has passed a moment ago; what differs in numbers only is alike."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        like, now = _NUMBERS.sub("", record.getMessage()), time.monotonic()
        if now - self._passed.get(like, -EVERY) < EVERY:
            return False
        if len(self._passed) >= MOST:
            self._passed.clear()
        self._passed[like] = now
        return True
