"""The memory of a process in MiB, as Linux counts it in ``/proc``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_KIB_PER_MIB = 1024.0
_PRINT_STATUS = "print(open('/proc/self/status').read())"


def bare_interpreter_mib() -> float:
    """Return the resident memory of an interpreter that does nothing."""
    done = subprocess.run([sys.executable, "-c", _PRINT_STATUS], check=True, capture_output=True, text=True)
    return _field_mib(done.stdout, "VmRSS")


def resident_mib() -> float:
    """Return the resident memory of this process."""
    return _field_mib(_STATUS.read_text(), "VmRSS")


@contextmanager
def peak_memory_mib() -> Iterator[list[float]]:
    """Yield a list that holds, after the block, the peak resident memory of this process within the block in MiB."""
    found: list[float] = []
    _CLEAR_REFS.write_text(_RESET_PEAK)
    yield found
    found.append(_field_mib(_STATUS.read_text(), "VmHWM"))


def _field_mib(status: str, name: str) -> float:
    (line,) = (each for each in status.splitlines() if each.startswith(f"{name}:"))
    return int(line.split()[1]) / _KIB_PER_MIB
