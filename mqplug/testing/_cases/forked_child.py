"""What calls do in a child of this process that was made by a fork."""

from __future__ import annotations

import os
import select
import signal
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest


def in_child(calls: Iterable[Callable[[], object]], within: float) -> list[str]:
    """Fork, and make these calls in the child; what each raised, by name, and "" where it raised nothing."""
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, when there are threads: as there are here
        child = os.fork()
    if not child:
        _make(calls, writing)
    os.close(writing)
    try:
        return _read(reading, within).decode().split("\n")
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _make(calls: Iterable[Callable[[], object]], writing: int) -> None:
    """In the child, which ends here: it has nothing of the parent's to clean up."""
    raised = []
    try:
        for call in calls:
            try:
                call()
                raised.append("")
            except BaseException as error:  # noqa: BLE001 - the parent hears of it
                raised.append(type(error).__name__)
        os.write(writing, "\n".join(raised).encode())
    finally:
        os._exit(0)


def _read(reading: int, within: float) -> bytes:
    """What the child wrote, all at once; nothing if it hangs."""
    ready, _, _ = select.select([reading], [], [], within)
    return os.read(reading, 65536) if ready else b"the child hangs"
