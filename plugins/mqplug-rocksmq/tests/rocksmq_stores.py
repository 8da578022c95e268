"""Helpers for stores, clients and programs that use them in other processes."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from store_seam import PageColumns, Store, TopicRetention

import mqplug
import mqplug_rocksmq
from mqplug import EARLIEST
from mqplug.spi import Action, ConsumerOptions, GroupPosition, GroupStart, Mode
from mqplug_rocksmq import RocksMQSettings

OpenStore = Callable[..., Store]
"""The fixture ``open_store``."""


def nightly(*cases: Any) -> list[Any]:
    """Return parameters for nightly runs: each a single value or a tuple of values."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.night) for case in cases]


def native(client: mqplug.Client) -> Store:
    """Return the store of a client."""
    store = client.unwrap(Store)
    assert store is not None
    return store


def store_settings(**given: Any) -> RocksMQSettings:
    """Return the settings of a store whose path is given separately."""
    return RocksMQSettings(path="store", **given)


def new_log(store: Store, topic: str = "orders", **retention: Any) -> int:
    """Create a topic of one partition and return its log."""
    return store.topics.create(topic, 1, TopicRetention(**retention), 30).logs[0]


def put(store: Store, log: int, *values: bytes | None, time: int = 1000) -> int:
    """Append one page of values."""
    return store.append(log, PageColumns([time] * len(values), values))


def values(store: Any, log: int, offset: int = 0) -> list[bytes | None]:
    """Return all values from an offset on."""
    found: list[bytes | None] = []
    while slices := store.read(log, offset):
        for part in slices:
            found += part.page.values()[part.start : part.stop]
        offset = slices[-1].end
    return found


def extent(store: Any, log: int) -> tuple[int, int]:
    """Return the low and high watermarks."""
    low, high, _ = store.watermarks([log])[0]
    return low, high


def tables(path: Path) -> int:
    """Return the total size of the tables below a directory."""
    size = 0
    for file in path.rglob("*.sst"):
        with suppress(FileNotFoundError):  # RocksDB removes files during the scan
            size += file.stat().st_size
    return size


@contextmanager
def files_left(count: int) -> Iterator[None]:
    """Let this process open only *count* more files, by lowering its limit of descriptor numbers."""
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(each.name) for each in Path("/proc/self/fd").iterdir()}
    free = [number for number in range(max(used) + count + 2) if number not in used]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[count], usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


def eventually(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds."""
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, "it did not happen in time"
        sleep(0.005)


class Member:
    """A consumer at the driver interface, which records its logs and its messages."""

    def __init__(
        self,
        mq: mqplug.Client,
        topic: str,
        group: str | None,
        mode: Mode = "ordered",
        start: GroupStart = EARLIEST,
    ) -> None:
        self.held: set[mqplug.Log] = set()
        self.got: dict[mqplug.Log, list[bytes | None]] = {}
        options = ConsumerOptions(logs=mq.partitions(topic), group=group, start=start, mode=mode)
        self.driver = mqplug_rocksmq.mqplug_open_consumer(mq._connection, options, self, 10)

    def assigned(self, positions: Mapping[mqplug.Log, GroupPosition]) -> None:
        self.held |= set(positions)

    def revoked(self, logs: Sequence[mqplug.Log]) -> Mapping[mqplug.Log, GroupPosition]:
        self.held -= set(logs)
        return {}

    def lost(self, logs: Sequence[mqplug.Log]) -> None:
        self.held -= set(logs)

    def poll(self, most: int = 1000) -> int:
        """Poll once, and return the number of messages."""
        batches = self.driver.poll(most, 0.05)
        for batch in batches:
            self.got.setdefault(batch.log, []).extend(batch.values)
        return sum(map(len, batches))


def administer(mq: mqplug.Client, action: Action) -> Any:
    """Carry out an action through the driver interface."""
    return mqplug_rocksmq.mqplug_administer(mq._connection, action, 10)


@contextmanager
def python(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run code in another process, and kill it at the end."""
    command = [sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def freeze(process: subprocess.Popen[str]) -> None:
    """Stop a process, and return once all of its threads have stopped."""
    process.send_signal(signal.SIGSTOP)
    threads = Path(f"/proc/{process.pid}/task")
    eventually(lambda: all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in threads.glob("*/stat")))


@contextmanager
def serving(path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Have another process hold a store open, and end it in order."""
    command = [sys.executable, "-m", "mqplug_cli", "rocksmq", "serve", str(path), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert line(process).startswith("serving")
            yield process
            process.send_signal(signal.SIGCONT)
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


def in_a_namespace(script: str, *arguments: object, seconds: float = 100) -> str:
    """Run a shell script as root of its own user namespace, where it can mount. Return its output."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-euc", script, "sh", *map(str, arguments)]
    if subprocess.run([*command[:4], "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let users make namespaces of their own")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line of the process's output."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


PRELUDE = f"""
import mqplug, os, signal, sys, threading
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from store_seam import PageColumns, Store, close_store, open_store
from rocksmq_stores import extent, new_log, put, store_settings, values
path = Path(sys.argv[1])
"""
