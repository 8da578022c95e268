"""RocksMQ: mqplug beside a bare rocksdict program that writes the same pages, and beside sqlite3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import mqplug
from benchmarks import _rocksdict, _sqlite
from benchmarks._paired import Contest, Side, Work

TOPIC = "messages"
VALUE = b"x" * 64 + bytes(range(64))
MANY = 1000


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """What is measured. Each turn of a writer has a directory of its own; readers share one that was filled before."""
    batches = 5 if quick else 200
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        directory = Path(name)
        yield [*_writing(directory, batches), *_reading(directory, batches)]


def _writing(directory: Path, batches: int) -> list[Contest]:
    def ours(words: str, sync: str, send: str) -> Side:
        return Side("mqplug", words, partial(_send, directory, sync, send, batches))

    def rocksdict(*, sync: bool) -> Side:
        words = f"encode, seal and write each page of 1000{', sync=True' if sync else ''}"
        return Side("rocksdict", words, partial(_rocksdict.writing, directory, [VALUE] * MANY, batches, sync=sync))

    def sqlite(synchronous: str) -> Side:
        words = f"WAL, synchronous={synchronous}, a transaction of 1000 rows"
        return Side(
            f"sqlite {synchronous}", words, partial(_sqlite.writing, directory, [VALUE] * MANY, batches, synchronous)
        )

    unsynced, synced = [rocksdict(sync=False), sqlite("NORMAL")], [rocksdict(sync=True), sqlite("FULL")]
    many, one = "send_many of 1000", "submit each, then flush"
    return [
        Contest(name="rocksmq: write in batches, sync=os", ours=ours(many, "os", "many"), rivals=unsynced, ratio=0.9),
        Contest(name="rocksmq: write by submit, sync=os", ours=ours(one, "os", "submit"), rivals=unsynced),
        Contest(
            name="rocksmq: write in batches, sync=always", ours=ours(many, "always", "many"), rivals=synced, ratio=0.9
        ),
        Contest(name="rocksmq: write by submit, sync=always", ours=ours(one, "always", "submit"), rivals=synced),
    ]


def _reading(directory: Path, batches: int) -> list[Contest]:
    full = directory / "full"
    rivals = [
        Side("rocksdict", "each page checked, its values decoded", partial(_rocksdict.reading, directory)),
        Side("sqlite", "SELECT value ... ORDER BY id, fetchmany(1000)", partial(_sqlite.reading, directory)),
    ]

    def ours(words: str, how: str) -> Side:
        return Side("mqplug", words, partial(_receive, full, how))

    _fill(directory, full, batches)
    many, one = ours("receive_many(1000).values", "many"), ours("message.value of each", "one")
    return [
        Contest(name="rocksmq: read in batches", ours=many, rivals=rivals, ratio=0.9),
        Contest(name="rocksmq: read message by message", ours=one, rivals=rivals),
    ]


def _fill(directory: Path, full: Path, batches: int) -> None:
    values = [VALUE] * MANY
    with mqplug.connect("rocksmq", path=str(full), sync="os") as mq:
        mq.create_topic(TOPIC)
        with mq.producer(TOPIC) as out:
            for _ in range(batches):
                out.send_many(values)
    for filling in (_rocksdict.filling(directory, values, batches), _sqlite.filling(directory, values, batches)):
        with filling as work:
            work()


@contextmanager
def _send(directory: Path, sync: str, how: str, batches: int) -> Iterator[Work]:
    values = [VALUE] * MANY

    def many() -> int:
        return sum(len(out.send_many(values)) for _ in range(batches))

    def submit() -> int:
        for _ in range(batches):
            for value in values:
                out.submit(value)
        out.flush()
        return batches * MANY

    with TemporaryDirectory(dir=directory) as path, mqplug.connect("rocksmq", path=path, sync=sync) as mq:
        mq.create_topic(TOPIC)
        with mq.producer(TOPIC) as out:
            yield many if how == "many" else submit


@contextmanager
def _receive(full: Path, how: str) -> Iterator[Work]:
    def many() -> int:
        count = 0
        while batch := consumer.receive_many(MANY, 0):
            count += len(batch.values)
        return count

    def one() -> int:
        size = 0
        for message in consumer:
            size += len(message.value or b"")
        return size // len(VALUE)

    with (
        mqplug.connect("rocksmq", path=str(full)) as mq,
        mq.consumer(TOPIC, start=mqplug.EARLIEST, until=mqplug.LATEST) as consumer,
    ):
        yield many if how == "many" else one
