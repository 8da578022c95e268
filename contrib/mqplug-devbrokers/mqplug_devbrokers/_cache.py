"""The cache folder, for files that are fetched or built once and shared by all runs on this machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mqplug_devbrokers._errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCK_TIMEOUT_S = 900.0  # another process may be downloading a quarter of a gigabyte over a slow line


def cache_root() -> Path:
    """Return the cache folder: MQPLUG_DEVBROKERS_CACHE, or `mqplug-devbrokers` in the user's cache directory."""
    chosen = os.environ.get("MQPLUG_DEVBROKERS_CACHE")
    if chosen:
        return Path(chosen).absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "mqplug-devbrokers"


def provide(name: str, build: Callable[[Path], None]) -> Path:
    """Return the folder `name` in the cache, which `build` fills once.

    It is built elsewhere and renamed, so that it is complete as soon as it exists. Other processes wait.
    """
    root = cache_root()
    target = root / name
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / f"{name}.lock"):
        if not target.is_dir():
            _build_aside(root, target, build)
    return target


def _build_aside(root: Path, target: Path, build: Callable[[Path], None]) -> None:
    for leftover in root.glob(f".{target.name}.*"):  # the lock is held here, so its builder was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=root) as aside:
        content = Path(aside) / "content"
        content.mkdir()
        build(content)
        content.rename(target)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` among all processes. It ends with the process."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    with path.open("w") as file:
        while not _try_lock(file.fileno()):
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"{path} has been locked by another process for {LOCK_TIMEOUT_S:.0f} s; "
                    "end that process, or choose another folder with MQPLUG_DEVBROKERS_CACHE"
                )
            time.sleep(0.1)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
