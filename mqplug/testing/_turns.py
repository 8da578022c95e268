"""Cases that measure the clock run alone, also beside other workers of the same run."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(*, alone: bool) -> Iterator[None]:
    """Wait until this case may run: alone, or beside others that need not be alone.

    Whoever waits to be alone holds the door meanwhile, so that nobody else comes in before.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        yield
        return
    with _file(run, "door") as door, _file(run, "room") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@contextmanager
def _file(run: str, name: str) -> Iterator[int]:
    descriptor = os.open(Path(tempfile.gettempdir()) / f"mqplug-kit-{run}-{name}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
