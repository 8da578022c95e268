"""The suite of RocksMQ stages and ingests, compared with sending the same messages and a bare rocksdict program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rocksdict import IngestExternalFileOptions, SstFileWriter

import mqplug
from benchmarks import _rocksdict
from benchmarks._contests import Contest, Side, Work
from benchmarks._load import BATCH_MESSAGES, Load, loads
from mqplug_rocksmq._engine.tuning import Tuning

TOPIC = "messages"


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests. Each turn has its own directory."""
    with TemporaryDirectory(prefix="mqplug-bench-") as name:
        directory = Path(name)
        yield [
            *(_writing(directory, load, form) for load in loads(quick=quick) for form in ("bytes", "Arrow")),
            *(_ingesting(directory, load) for load in loads(quick=quick)),
            *(_reading(directory, load) for load in loads(quick=quick)),
        ]


def _writing(directory: Path, load: Load, form: str) -> Contest:
    return Contest(
        name=f"rocksmq: write in bulk from {form}, {load.name}",
        ours=Side("mqplug", "write of 1000, finish, ingest", partial(_stage, directory, load, form)),
        rivals=[
            Side("rocksdict", "the pages of 1000 into one table file, ingest", partial(_bare, directory, load)),
            Side("mqplug sent", "send_many of 1000, sync=os", partial(_send, directory, load, form)),
        ],
    )


def _ingesting(directory: Path, load: Load) -> Contest:
    """Return the contest of only the ingest, the owner's part; another process may stage."""
    return Contest(
        name=f"rocksmq: ingest alone, {load.name}",
        ours=Side("mqplug", "ingest", partial(_ingest_alone, directory, load)),
        rivals=[Side("mqplug sent", "send_many of 1000, sync=os", partial(_send, directory, load, "bytes"))],
    )


def _reading(directory: Path, load: Load) -> Contest:
    return Contest(
        name=f"rocksmq: read ingested messages, {load.name}",
        ours=Side("mqplug", "receive_many(1000).values", partial(_read, directory, load, _write_staged)),
        rivals=[Side("mqplug sent", "the same after send_many", partial(_read, directory, load, _write_sent))],
        min_speed_ratios={"mqplug sent": 0.9},
    )


@contextmanager
def _store(directory: Path, load: Load) -> Iterator[mqplug.Client]:
    with TemporaryDirectory(dir=directory) as path, mqplug.connect("rocksmq", path=path, sync="os") as mq:
        mq.create_topic(TOPIC, partitions=load.partitions)
        yield mq


def _batch(load: Load, form: str) -> Any:
    if form == "bytes":
        return load.values
    import pyarrow as pa

    return pa.record_batch({"value": pa.array(load.values, pa.binary())})


@contextmanager
def _stage(directory: Path, load: Load, form: str) -> Iterator[Work]:
    batch, numbers = _batch(load, form), count()
    with _store(directory, load) as mq:
        yield lambda: _stage_and_ingest(mq, load, batch, next(numbers))


def _stage_and_ingest(mq: mqplug.Client, load: Load, batch: Any, number: int) -> int:
    return mq.ingest(_write(mq, load, batch), writer="benchmark", number=number).messages


def _write(mq: mqplug.Client, load: Load, batch: Any) -> mqplug.Staged:
    with mq.stage(TOPIC) as stage:
        for _ in range(load.batches):
            stage.write(batch)
        return stage.finish()


@contextmanager
def _ingest_alone(directory: Path, load: Load) -> Iterator[Work]:
    with _store(directory, load) as mq:
        found = _write(mq, load, load.values)
        yield lambda: mq.ingest(found, writer="benchmark", number=0).messages


@contextmanager
def _send(directory: Path, load: Load, form: str) -> Iterator[Work]:
    batch = _batch(load, form)
    with _store(directory, load) as mq, mq.producer(TOPIC) as out:
        yield lambda: sum(len(out.send_many(batch)) for _ in range(load.batches))


@contextmanager
def _bare(directory: Path, load: Load) -> Iterator[Work]:
    """Prepare to create and ingest a table file of pages without partitions, index, file checksum or ingest mark."""
    with TemporaryDirectory(dir=directory) as path:
        database = _rocksdict.open_database(Path(path))
        file, turns = str(Path(path) / "staged.sst"), count()
        yield lambda: _ingest_pages(database.get_column_family("data"), file, load, next(turns))
        database.close()


def _ingest_pages(data: Any, file: str, load: Load, turn: int) -> int:
    writer = SstFileWriter(Tuning().families("strict")[1]["data"])
    writer.open(file)
    end = 0
    for _ in range(load.batches):
        for body in _rocksdict.pages_of(load.values):
            writer[_rocksdict.PAGE_KEY.pack(turn, end)] = body.seal(end)
            end += body.messages
    writer.finish()
    options = IngestExternalFileOptions()
    options.set_move_files(True)
    data.ingest_external_file([file], options)
    return end


@contextmanager
def _read(directory: Path, load: Load, write: Callable[[mqplug.Client, Load], None]) -> Iterator[Work]:
    """Prepare to read from table files on both sides: a clean close moves sent messages into table files."""
    with TemporaryDirectory(dir=directory) as path:
        with mqplug.connect("rocksmq", path=path, sync="os") as mq:
            mq.create_topic(TOPIC, partitions=load.partitions)
            write(mq, load)
        with (
            mqplug.connect("rocksmq", path=path, sync="os") as mq,
            mq.consumer(TOPIC, start=mqplug.EARLIEST, until=mqplug.LATEST) as consumer,
        ):
            yield lambda: _values(consumer)


def _write_staged(mq: mqplug.Client, load: Load) -> None:
    _stage_and_ingest(mq, load, load.values, 0)


def _write_sent(mq: mqplug.Client, load: Load) -> None:
    with mq.producer(TOPIC) as out:
        for _ in range(load.batches):
            out.send_many(load.values)


def _values(consumer: mqplug.Consumer) -> int:
    found = 0
    while batch := consumer.receive_many(BATCH_MESSAGES, 0):
        found += len(batch.values)
    return found
