"""RocksMQ, messages sent one by one: each waited for, by 1, 16 and 64 threads; and not waited for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import mqplug
from benchmarks import _sqlite
from benchmarks._committer import committer, writer
from benchmarks._load import some_values
from benchmarks._paired import Contest, Side, Timed, Work
from benchmarks._threads import from_threads

TOPIC = "messages"
SIZES, THREADS, SYNCS = (128, 1024), (1, 16, 64), ("always", "os")
OUTSTANDING = 1000
ENOUGH = {"always": {1: 1000, 16: 300, 64: 150}, "os": {1: 10_000, 16: 800, 64: 200}}
"""How many sends of each thread are a turn."""


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """What is measured. Each turn has a directory of its own."""
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        directory = Path(name)
        yield [
            *(_waiting(directory, *each, quick=quick) for each in product(SIZES, SYNCS, THREADS)),
            *(_not_waiting(directory, *each, quick=quick) for each in product(SIZES, SYNCS)),
        ]


def _waiting(directory: Path, size: int, sync: str, threads: int, *, quick: bool) -> Contest:
    calls = 10 if quick else ENOUGH[sync][threads]
    run = partial(from_threads, threads, calls, values=some_values(size))
    slow = partial(from_threads, threads, max(1, calls // (1 if threads == 1 else 8)), values=some_values(size))
    synchronous = "FULL" if sync == "always" else "NORMAL"
    bare = "one thread writes for all, then flush_wal(True)" if sync == "always" else "each writes a page of one"
    return Contest(
        name=f"rocksmq: send, {size} B, {threads} thread{'s' * (threads > 1)}, sync={sync}",
        ours=Side("mqplug", "send of each", partial(_send, directory, sync, run)),
        rivals=[
            Side("rocksdict", bare, partial(_bare, directory, sync, run)),
            Side(
                "sqlite", f"WAL, synchronous={synchronous}, INSERT in a transaction of its own, under a lock",
                partial(_insert, directory, synchronous, slow),
            ),
        ],
    )  # fmt: skip


@contextmanager
def _send(directory: Path, sync: str, run: partial[Timed]) -> Iterator[Work]:
    with TemporaryDirectory(dir=directory) as path, mqplug.connect("rocksmq", path=path, sync=sync) as mq:
        mq.create_topic(TOPIC)
        with mq.producer(TOPIC) as out:
            yield lambda: run(out.send)


@contextmanager
def _bare(directory: Path, sync: str, run: partial[Timed]) -> Iterator[Work]:
    if sync == "always":
        with committer(directory, sync=True) as native:
            yield lambda: run(native.send)
    else:
        with writer(directory) as write:
            yield lambda: run(write)


@contextmanager
def _insert(directory: Path, synchronous: str, run: partial[Timed]) -> Iterator[Work]:
    lock = threading.Lock()

    def insert(value: bytes) -> None:
        with lock:
            _sqlite.insert_one(database, value)

    with TemporaryDirectory(dir=directory) as path, _sqlite.open_database(Path(path), synchronous) as database:
        yield lambda: run(insert)


def _not_waiting(directory: Path, size: int, sync: str, *, quick: bool) -> Contest:
    values = some_values(size) * (2 if quick else 40)
    bare = f"one thread writes{' and syncs' * (sync == 'always')}, at most {OUTSTANDING} on their way"
    return Contest(
        name=f"rocksmq: submit, {size} B, sync={sync}",
        ours=Side(
            "mqplug", f"submit, queue_messages={OUTSTANDING}; then flush", partial(_submit, directory, sync, values)
        ),
        rivals=[Side("rocksdict", bare, partial(_submit_bare, directory, sync, values))],
    )


@contextmanager
def _submit(directory: Path, sync: str, values: list[bytes]) -> Iterator[Work]:
    def work() -> int:
        for value in values:
            out.submit(value)
        out.flush()
        return len(values)

    with TemporaryDirectory(dir=directory) as path, mqplug.connect("rocksmq", path=path, sync=sync) as mq:
        mq.create_topic(TOPIC)
        with mq.producer(TOPIC, queue_messages=OUTSTANDING) as out:
            yield work


@contextmanager
def _submit_bare(directory: Path, sync: str, values: list[bytes]) -> Iterator[Work]:
    def work() -> int:
        for value in values:
            native.submit(value)
        native.flush()
        return len(values)

    with committer(directory, sync=sync == "always", most=OUTSTANDING) as native:
        yield work
