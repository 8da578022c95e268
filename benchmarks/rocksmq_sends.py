"""The suite of RocksMQ single sends: waited for by 1, 16 and 64 threads, and submitted without waiting."""

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
from benchmarks._calling_threads import from_threads
from benchmarks._contests import Contest, Side, TimedMessages, Work
from benchmarks._load import batch_values
from benchmarks._rocksdict_single_sends import open_committer, open_writer

TOPIC = "messages"
VALUE_SIZES_BYTES, THREADS, SYNCS = (128, 1024), (1, 16, 64), ("always", "os")
OUTSTANDING_MESSAGES = 1000
SENDS_PER_THREAD = {"always": {1: 1000, 16: 300, 64: 150}, "os": {1: 10_000, 16: 800, 64: 200}}
"""The sends of each thread in a turn, by ``sync`` and number of threads."""


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests. Each turn has its own directory."""
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        directory = Path(name)
        yield [
            *(_waiting(directory, *each, quick=quick) for each in product(VALUE_SIZES_BYTES, SYNCS, THREADS)),
            *(_not_waiting(directory, *each, quick=quick) for each in product(VALUE_SIZES_BYTES, SYNCS)),
        ]


def _waiting(directory: Path, size: int, sync: str, threads: int, *, quick: bool) -> Contest:
    calls = 10 if quick else SENDS_PER_THREAD[sync][threads]
    run = partial(from_threads, threads, calls, values=batch_values(size))
    slow = partial(from_threads, threads, max(1, calls // (1 if threads == 1 else 8)), values=batch_values(size))
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
def _send(directory: Path, sync: str, run: partial[TimedMessages]) -> Iterator[Work]:
    with TemporaryDirectory(dir=directory) as path, mqplug.connect("rocksmq", path=path, sync=sync) as mq:
        mq.create_topic(TOPIC)
        with mq.producer(TOPIC) as out:
            yield lambda: run(out.send)


@contextmanager
def _bare(directory: Path, sync: str, run: partial[TimedMessages]) -> Iterator[Work]:
    if sync == "always":
        with open_committer(directory, sync=True) as committer:
            yield lambda: run(committer.send)
    else:
        with open_writer(directory) as write:
            yield lambda: run(write)


@contextmanager
def _insert(directory: Path, synchronous: str, run: partial[TimedMessages]) -> Iterator[Work]:
    lock = threading.Lock()

    def insert(value: bytes) -> None:
        with lock:
            _sqlite.insert_one(database, value)

    with TemporaryDirectory(dir=directory) as path, _sqlite.open_database(Path(path), synchronous) as database:
        yield lambda: run(insert)


def _not_waiting(directory: Path, size: int, sync: str, *, quick: bool) -> Contest:
    values = batch_values(size) * (2 if quick else 40)
    bare = f"one thread writes{' and syncs' * (sync == 'always')}, at most {OUTSTANDING_MESSAGES} pending"
    return Contest(
        name=f"rocksmq: submit, {size} B, sync={sync}",
        ours=Side(
            "mqplug",
            f"submit, queue_messages={OUTSTANDING_MESSAGES}; then flush",
            partial(_submit, directory, sync, values),
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
        with mq.producer(TOPIC, queue_messages=OUTSTANDING_MESSAGES) as out:
            yield work


@contextmanager
def _submit_bare(directory: Path, sync: str, values: list[bytes]) -> Iterator[Work]:
    def work() -> int:
        for value in values:
            committer.submit(value)
        committer.flush()
        return len(values)

    with open_committer(directory, sync=sync == "always", most=OUTSTANDING_MESSAGES) as committer:
        yield work
