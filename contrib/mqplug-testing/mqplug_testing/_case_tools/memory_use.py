"""The memory use of this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

MIB: Final = 2**20

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the bytes of this process that are in memory, including those of native libraries."""
    if not _STATM.exists():
        pytest.skip("the memory of a process can be read on Linux only")
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
