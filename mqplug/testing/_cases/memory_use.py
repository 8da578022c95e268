"""How much memory this process has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

MIB: Final = 2**20

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Bytes of this process that are in memory, those of native libraries too."""
    if not _STATM.exists():
        pytest.skip("the memory of a process is looked up on Linux only")
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
