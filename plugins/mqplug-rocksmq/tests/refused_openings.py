"""Helpers for stores that must not open: they check that nothing is changed."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mqplug

QUICK = 20.0  # seconds: less than the timeouts in the tests


def connect(path: Path | str, timeout: float = 60, **settings: Any) -> mqplug.Client:
    """Connect, and expect a refusal to come at once, even on a busy machine."""
    return mqplug.connect("rocksmq", path=str(path), timeout=timeout, **settings)


def files(path: Path) -> list[tuple[str, int, int]]:
    """Return the files in a directory with their sizes and modification times."""
    found = [(each, each.lstat()) for each in path.rglob("*")]
    return sorted((str(each.relative_to(path)), about.st_size, about.st_mtime_ns) for each, about in found)


@contextmanager
def untouched(path: Path) -> Iterator[None]:
    """Check that nothing below a directory is created, removed or changed."""
    before = files(path)
    yield
    assert files(path) == before


@contextmanager
def held(store: Path, owner: object) -> Iterator[None]:
    """A store held by another process, whose owner file has this content."""
    with (store / "owner").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(owner if isinstance(owner, str) else json.dumps(owner))
        file.flush()
        yield
