"""The suite of RocksMQ in batches, compared with a bare rocksdict program, sqlite3, and queues on SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import mqplug
from benchmarks import _queue_libraries, _rocksdict, _sqlite
from benchmarks._contests import Contest, Side, Work
from benchmarks._load import BATCH_MESSAGES, Load, loads

TOPIC = "messages"
SYNCS = {"os": ("NORMAL", 6), "always": ("FULL", 4)}
"""For each ``sync`` of RocksMQ: the ``synchronous`` of sqlite, and the aim for the ratio of speeds."""


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests. Each turn that writes has its own directory; those that read share one, filled once."""
    if missing := _queue_libraries.missing():
        print(f"not installed, so omitted: {', '.join(missing)}")
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        directory = Path(name)
        yield [
            *(_writing(directory, *each) for each in product(loads(quick=quick), ORIGINS, SYNCS)),
            *(_reading(directory, load, form) for load, form in product(loads(quick=quick), FORMS)),
            *(_reading_many(directory, load, form) for load, form in product(loads(quick=quick), MANY)),
            *(_reading_singles(directory, Load(128, 1, 1 if quick else 20), form) for form in FORMS),
        ]


def _writing(directory: Path, load: Load, origin: str, sync: str) -> Contest:
    synchronous, times = SYNCS[sync]
    synced = sync == "always"
    ours, bare, rows = ORIGINS[origin]
    return Contest(
        name=f"rocksmq: write from {origin}, {load.name}, sync={sync}",
        ours=Side("mqplug", ours, partial(_send, directory, load, origin, sync)),
        rivals=[
            Side(
                "rocksdict",
                bare + ", sync=True" * synced,
                partial(_rocksdict.writing, directory, load, origin, sync=synced),
            ),
            Side(
                "sqlite",
                f"WAL, synchronous={synchronous}, {rows}",
                partial(_sqlite.writing, directory, load, origin, synchronous),
            ),
            *(_queue_rivals(directory, load, synchronous) if origin == "bytes" else ()),
        ],
        min_speed_ratios={"rocksdict": 0.9, "sqlite": times},
    )


ORIGINS = {
    "bytes": (
        "send_many of 1000 values",
        "encode, seal and write the pages of 1000 values",
        "executemany of 1000 rows in a transaction",
    ),
    "arrow": (
        "send_many of a RecordBatch of 1000 rows",
        "the same, encoded from the arrays of a RecordBatch",
        "the same, from to_pylist() of a RecordBatch",
    ),
}
"""For each origin of the values: how mqplug, the bare program and sqlite write."""


def _queue_rivals(directory: Path, load: Load, synchronous: str) -> Iterator[Side]:
    words = f"WAL, synchronous={synchronous}, executemany, with indexes by offset and by time"
    yield Side("sqlite log", words, partial(_sqlite.writing_log, directory, load, synchronous))
    if load.partitions == 1:
        yield from _queue_libraries.putting(directory, load, synchronous)


@contextmanager
def _send(directory: Path, load: Load, origin: str, sync: str) -> Iterator[Work]:
    batch = load.table if origin == "arrow" else load.values
    with TemporaryDirectory(dir=directory) as path, mqplug.connect("rocksmq", path=path, sync=sync) as mq:
        mq.create_topic(TOPIC, partitions=load.partitions)
        with mq.producer(TOPIC) as out:
            yield lambda: sum(len(out.send_many(batch)) for _ in range(load.batches))


def _reading(directory: Path, load: Load, form: str) -> Contest:
    words, bare, rows = FORMS[form]
    libraries = _queue_libraries.taking(directory, load) if form == "values" and load.partitions == 1 else ()
    return Contest(
        name=f"rocksmq: read to {form}, {load.name}",
        ours=Side("mqplug", words, partial(_receive, directory, load, RECEIVERS[form])),
        rivals=[
            Side("rocksdict", bare, partial(_read_bare, directory, load, form)),
            Side("sqlite", rows, partial(_read_rows, directory, load, form)),
            *libraries,
        ],
        min_speed_ratios={"rocksdict": 0.7 if form == "messages" else 0.9},
    )


def _reading_many(directory: Path, load: Load, form: str) -> Contest:
    words, bare, _ = FORMS[form]
    return Contest(
        name=f"rocksmq: read to {form}, 4000 at a time, {load.name}",
        ours=Side("mqplug", words.replace("1000", "4000"), partial(_receive, directory, load, MANY[form])),
        rivals=[Side("rocksdict", bare, partial(_read_bare, directory, load, form))],
    )


def _reading_singles(directory: Path, load: Load, form: str) -> Contest:
    words, bare, _ = FORMS[form]
    return Contest(
        name=f"rocksmq: read to {form}, sent one by one, {load.name}",
        ours=Side("mqplug", words, partial(_receive, directory, load, RECEIVERS[form], _fill_singly)),
        rivals=[Side("rocksdict", bare, partial(_read_bare, directory, load, form, _rocksdict.fill_singly))],
    )


FORMS = {
    "values": (
        "receive_many(1000).values",
        "the same pages, each checked, its values decoded",
        "SELECT value ... ORDER BY id, fetchmany(1000)",
    ),
    "messages": (
        "for message in consumer: message.value",
        "the same pages, each checked, a list of tuples of offset, time, key, value and headers, value looked at",
        "SELECT id, time, key, value ... ORDER BY id, value looked at",
    ),
    "arrow": (
        "receive_many(1000).to_arrow(['offset', 'timestamp', 'key', 'value', 'headers'])",
        "the same pages, each checked, a record batch of timestamp, key, value and headers over it",
        "the same as tuples, then a table of 1000 rows",
    ),
}
"""For each form: how mqplug, the bare program and sqlite read."""


Fill = Callable[[Path, Load], None]
Receive = Callable[[mqplug.Consumer], int]


@contextmanager
def _receive(directory: Path, load: Load, receive: Receive, fill: Fill | None = None) -> Iterator[Work]:
    path = _filled(directory, "mqplug", load, fill or _fill)
    with (
        mqplug.connect("rocksmq", path=str(path), sync="os") as mq,
        mq.consumer(TOPIC, start=mqplug.EARLIEST, until=mqplug.LATEST) as consumer,
    ):
        yield lambda: receive(consumer)


def _values(consumer: mqplug.Consumer, most: int = BATCH_MESSAGES) -> int:
    count = 0
    while batch := consumer.receive_many(most, 0):
        count += len(batch.values)
    return count


def _messages(consumer: mqplug.Consumer) -> int:
    count = 0
    for message in consumer:
        assert message.value
        count += 1
    return count


def _arrow(consumer: mqplug.Consumer, most: int = BATCH_MESSAGES) -> int:
    count = 0
    while batch := consumer.receive_many(most, 0):
        count += batch.to_arrow(["offset", "timestamp", "key", "value", "headers"]).num_rows
    return count


RECEIVERS: Mapping[str, Receive] = {"values": _values, "messages": _messages, "arrow": _arrow}
MANY: Mapping[str, Receive] = {"values": partial(_values, most=4000), "arrow": partial(_arrow, most=4000)}


def _read_bare(directory: Path, load: Load, form: str, fill: Fill = _rocksdict.fill) -> AbstractContextManager[Work]:
    return _rocksdict.reading(_filled(directory, "rocksdict", load, fill), form)


def _read_rows(directory: Path, load: Load, form: str) -> AbstractContextManager[Work]:
    return _sqlite.reading(_filled(directory, "sqlite", load, _sqlite.fill), form)


def _filled(directory: Path, name: str, load: Load, fill: Fill) -> Path:
    """Return a directory that holds this load; fill it on first use."""
    path = directory / f"{name}-{load.size}-{load.partitions}-{fill.__name__}"
    if not path.exists():
        fill(path, load)
    return path


def _fill(path: Path, load: Load) -> None:
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic(TOPIC, partitions=load.partitions)
        with mq.producer(TOPIC) as out:
            for _ in range(load.batches):
                out.send_many(load.values)


def _fill_singly(path: Path, load: Load) -> None:
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        mq.create_topic(TOPIC, partitions=load.partitions)
        with mq.producer(TOPIC) as out:
            for value in load.values * load.batches:
                out.send(value)
