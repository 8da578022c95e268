"""Captures the log lines of a block."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Collector(logging.Handler):
    """Keeps the lines in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.lines.append(self.format(record))


@contextmanager
def captured_logs(name: str, level: int) -> Iterator[list[str]]:
    """Yield the list of lines that this logger, or one below it, writes within the block."""
    collector, logger = _Collector(), logging.getLogger(name)
    before = logger.level
    logger.addHandler(collector)
    logger.setLevel(level)
    try:
        yield collector.lines
    finally:
        logger.setLevel(before)
        logger.removeHandler(collector)
