"""Short words for what the tests do to stores."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from mqplug_rocksmq._page import Columns
from mqplug_rocksmq._store import Store
from mqplug_rocksmq._topics import Retention


def new_log(store: Store, topic: str = "orders", **retention: Any) -> int:
    """Create a topic of one partition and return its log."""
    return store.topics.create(topic, 1, Retention(**retention), 30).logs[0]


def put(store: Store, log: int, *values: bytes | None, time: int = 1000) -> int:
    """Append one page of values."""
    return store.append(log, Columns([time] * len(values), values))


def values(store: Any, log: int, offset: int = 0) -> list[bytes | None]:
    """Return all values from an offset on."""
    found: list[bytes | None] = []
    while slices := store.read(log, offset):
        for part in slices:
            found += part.page.values()[part.start : part.stop]
        offset = slices[-1].end
    return found


def extent(store: Any, log: int) -> tuple[int, int]:
    """Return low and high."""
    low, high, _ = store.watermarks([log])[0]
    return low, high


def eventually(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait until something holds."""
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, "it did not happen in time"
        sleep(0.005)


@contextmanager
def python(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run code in another process; kill it in the end."""
    command = [sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line that the process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


PRELUDE = f"""
import os, signal, sys, threading
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from mqplug_rocksmq._shared import close_store, open_or_connect, open_store
from mqplug_rocksmq._store import Columns, Store, StoreSettings
from rocksmq_words import extent, new_log, put, values
path = Path(sys.argv[1])
"""
