"""The exit codes of ``mqplug``."""

from __future__ import annotations

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130
