"""Descendants of this process, as Linux lists them in ``/proc``: their CPU time and peak memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CPU_FIELDS = slice(11, 15)  # user and system, its own and of reaped children; counted after the name
_PARENT_FIELD = 1
_KIB_PER_MIB = 1024.0


def tree_cpu_s() -> float:
    """Return the seconds of CPU time of this process and its descendants. An ended one counts with its parent."""
    stats = _all_stats()
    ticks = (sum(map(int, stats[process][_CPU_FIELDS])) for process in _tree(stats, os.getpid()) if process in stats)
    return sum(ticks) / _TICKS_PER_S


def peaks_mib(command: str) -> list[float]:
    """Return the peak resident memory in MiB of each descendant whose command line contains this text."""
    peaks = []
    for process in _tree(_all_stats(), os.getpid()):
        with suppress(OSError):
            if command in Path(f"/proc/{process}/cmdline").read_text():
                lines = Path(f"/proc/{process}/status").read_text().splitlines()
                peaks += [int(line.split()[1]) / _KIB_PER_MIB for line in lines if line.startswith("VmHWM:")]
    return peaks


def _all_stats() -> dict[int, list[str]]:
    """Return the fields of each process after its name, which may contain spaces."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
    return found


def _tree(stats: dict[int, list[str]], root: int) -> Iterator[int]:
    yield root
    for process, fields in stats.items():
        if int(fields[_PARENT_FIELD]) == root:
            yield from _tree(stats, process)
