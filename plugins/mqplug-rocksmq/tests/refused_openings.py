"""Helpers for stores that must not open: they check that nothing was changed."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mqplug

QUICK = 20.0  # seconds: less than the timeouts that the tests say


def connect(path: Path | str, timeout: float = 60, **settings: Any) -> mqplug.Client:
    """Connect. What is refused is refused at once, as soon as a busy machine comes to it."""
    return mqplug.connect("rocksmq", path=str(path), timeout=timeout, **settings)


def files(path: Path) -> list[tuple[str, int, int]]:
    """Return what lies in a directory, how large it is, and when it was changed."""
    found = [(each, each.lstat()) for each in path.rglob("*")]
    return sorted((str(each.relative_to(path)), about.st_size, about.st_mtime_ns) for each, about in found)


@contextmanager
def untouched(path: Path) -> Iterator[None]:
    """Nothing below a directory is made, removed or changed."""
    before = files(path)
    yield
    assert files(path) == before


@contextmanager
def held(store: Path, owner: object) -> Iterator[None]:
    """Somebody holds a store, and its file says this about him."""
    with (store / "owner").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(owner if isinstance(owner, str) else json.dumps(owner))
        file.flush()
        yield
