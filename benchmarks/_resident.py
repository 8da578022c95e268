"""How much memory this process has, as Linux counts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_PEAK_ONLY = "5"
_MIB = 1024.0
_BARE = "print(open('/proc/self/status').read())"


def bare_interpreter() -> float:
    """MiB of an interpreter that does nothing."""
    done = subprocess.run([sys.executable, "-c", _BARE], check=True, capture_output=True, text=True)
    return _field(done.stdout, "VmRSS")


@contextmanager
def peak() -> Iterator[list[float]]:
    """Adds, at the end of the block, the most MiB that this process had at a time while it ran."""
    found: list[float] = []
    _CLEAR.write_text(_PEAK_ONLY)
    yield found
    found.append(_field(_STATUS.read_text(), "VmHWM"))


def _field(status: str, name: str) -> float:
    (line,) = (each for each in status.splitlines() if each.startswith(f"{name}:"))
    return int(line.split()[1]) / _MIB
