"""The exit codes of ``mqplug``."""

from __future__ import annotations

FAILED = 1
WRONG_USAGE = 2
BEHIND = 3  # nothing was read, or a group lags
HUNG_UP = 129  # the terminal is gone
INTERRUPTED = 130
OUTPUT_CLOSED = 141  # the program that read the output ended, as `head` does
TERMINATED = 143
