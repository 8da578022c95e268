"""Makes calls in a forked child of this process, and returns the errors they raised."""

from __future__ import annotations

import os
import select
import signal
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest


def in_child(calls: Iterable[Callable[[], object]], within: float) -> list[str]:
    """Fork, and make these calls in the child. Return the type name of the error that each raised, or ""."""
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork with threads
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
    """Make the calls in the child, and end it: it has none of the parent's resources to clean up."""
    raised = []
    try:
        for call in calls:
            try:
                call()
                raised.append("")
            except BaseException as error:  # noqa: BLE001 - reported to the parent
                raised.append(type(error).__name__)
        os.write(writing, "\n".join(raised).encode())
    finally:
        os._exit(0)


def _read(reading: int, within: float) -> bytes:
    """Return the child's report, which it writes at once, or a note that it hangs."""
    ready, _, _ = select.select([reading], [], [], within)
    return os.read(reading, 65536) if ready else b"the child hangs"
