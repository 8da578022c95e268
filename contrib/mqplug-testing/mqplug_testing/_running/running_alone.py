"""Runs cases that measure time alone, also among the parallel workers of a run."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED_DIRECTORY_VARIABLE = "MQPLUG_KIT_SHARED"
"""The environment variable of the directory that the workers of a run share. Unset, there are no other workers."""


@contextmanager
def running(*, alone: bool) -> Iterator[None]:
    """Wait until this case may run: alone, or beside others that need not be alone.

    A case that waits to be alone holds the first lock meanwhile, so that no other case starts before it.
    """
    shared = os.environ.get(SHARED_DIRECTORY_VARIABLE)
    if shared is None:
        yield
        return
    with _file(Path(shared, "mqplug-kit-queue")) as queue, _file(Path(shared, "mqplug-kit-cases")) as cases:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(cases, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@contextmanager
def _file(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
