"""The suite of RocksMQ as a job queue, compared with queues on SQLite with the same durability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import mqplug
from benchmarks import _job_queues
from benchmarks._contests import Contest, Side, Work
from benchmarks._queue_libraries import is_installed

TOPIC = "jobs"
VALUE = b"x" * 64 + bytes(range(64))
JOBS_AT_ONCE = 100


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests. Each turn has its own directory; rivals that are not installed are omitted."""
    one, many = (100, 1_000) if quick else (500, 5_000)
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        directory = Path(name)
        yield [
            _contest(directory, sync, count, at_once)
            for sync in ("always", "os")
            for count, at_once in ((one, 1), (many, JOBS_AT_ONCE))
        ]


def _contest(directory: Path, sync: str, count: int, at_once: int) -> Contest:
    each = "each" if at_once == 1 else f"{at_once} at a time"
    ours = Side("mqplug", f"send, receive, ack, commit: {each}", partial(_ours, directory, count, at_once, sync))
    return Contest(
        name=f"rocksmq: put, take and ack {each}, sync={sync}",
        ours=ours,
        rivals=list(_rivals(directory, "FULL" if sync == "always" else "NORMAL", count, at_once)),
        unit="job",
    )


def _rivals(directory: Path, synchronous: str, count: int, at_once: int) -> Iterator[Side]:
    words = f"WAL, synchronous={synchronous}"
    by_hand = partial(_job_queues.by_hand, directory, VALUE, count, at_once, synchronous)
    yield Side("sqlite", f"{words}, INSERT, SELECT, DELETE; taken jobs in memory", by_hand)
    if is_installed("litequeue"):
        litequeue = partial(_job_queues.litequeue, directory, VALUE, count, at_once, synchronous)
        together = "put" if at_once == 1 else f"a transaction of {at_once} puts"
        yield Side("litequeue", f"{words}, {together}, pop, done", litequeue)
    if at_once == 1 and is_installed("persistqueue"):
        persist_queue = partial(_job_queues.persist_queue, directory, VALUE, count, synchronous)
        yield Side("persist-queue", f"{words}, SQLiteAckQueue: put, get, ack", persist_queue)


@contextmanager
def _ours(directory: Path, count: int, at_once: int, sync: str) -> Iterator[Work]:
    def each() -> int:
        for _ in range(count):
            out.send(VALUE)
        done = 0
        while job := jobs.receive(0):
            jobs.ack(job)
            jobs.commit()
            done += 1
        return done

    def many() -> int:
        values = [VALUE] * at_once
        for _ in range(0, count, at_once):
            out.send_many(values)
        done = 0
        while batch := jobs.receive_many(at_once, 0):
            for job in batch:
                jobs.ack(job)
            jobs.commit()
            done += len(batch)
        return done

    with TemporaryDirectory(dir=directory) as path, mqplug.connect("rocksmq", path=path, sync=sync) as mq:
        mq.create_topic(TOPIC)
        with mq.producer(TOPIC) as out, mq.consumer(TOPIC, group="workers", mode="shared") as jobs:
            yield each if at_once == 1 else many
