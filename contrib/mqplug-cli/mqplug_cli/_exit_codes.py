"""The exit codes of ``mqplug``."""

from __future__ import annotations

FAILED = 1
WRONG_USAGE = 2
BEHIND = 3  # nothing was read, or a group lags behind
HUNG_UP = 129  # the terminal is gone
INTERRUPTED = 130
OUTPUT_CLOSED = 141  # the reader of our output is gone, as `head` is after its lines
TERMINATED = 143
