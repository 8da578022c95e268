"""A Spark driver that copies topics with streams. A file ``finish`` makes it end once everything is copied.

``copying_program.py TASK`` takes a JSON object: the ``folder`` for checkpoints and for the files below, the ``master``,
Spark's ``settings``, and ``copies``: the name, source and target of each stream. It prints the name and number of each
batch that Spark has committed.

A file ``driver NAME`` in the folder kills the driver exactly between the target's commit of a batch and Spark's;
``worker NAME`` kills a task's process when its rows are written, before Spark receives the result.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from mqplug_spark import MqplugDataSource

START_TIMEOUT_S = 600  # for the start of Spark, on a busy machine


class KilledSource(MqplugDataSource):
    """The source, with a sink that is killed when the file exists that the option ``killed`` names."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "killed_mqplug"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KilledWriter:  # noqa: N802
        """Return mqplug's sink inside one that is killed."""
        options = {name: text for name, text in self.options.items() if name != "killed"}
        return KilledWriter(MqplugDataSource(options).streamWriter(schema, overwrite), self.options["killed"])


class KilledWriter(DataSourceStreamArrowWriter):
    """Writes as mqplug does, and may then be killed."""

    def __init__(self, sink: Any, killed: str) -> None:
        self._sink = sink
        self._killed = json.loads(killed)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        message = self._sink.write(iterator)
        if self._asked("worker"):
            os.kill(os.getpid(), signal.SIGKILL)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit a batch at the target."""
        self._sink.commit(messages, batchId)
        if self._asked("driver"):
            for pid in self._killed["pids"]:
                os.kill(pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort a batch."""
        self._sink.abort(messages, batchId)

    def _asked(self, whom: str) -> bool:
        """Return whether the file exists, but only to the first caller."""
        try:
            Path(self._killed[whom]).unlink()
        except FileNotFoundError:
            return False
        return True


def main(task: dict[str, Any]) -> None:
    """Copy until the file ``finish`` exists, then to the end."""
    folder = Path(task["folder"])
    spark = SparkSession.builder.master(task["master"]).config(map=task["settings"]).getOrCreate()
    spark.dataSource.register(KilledSource)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pids = [os.getpid(), jvm.java.lang.ProcessHandle.current().pid()]
    queries = {copy["name"]: _start(spark, folder, copy, pids) for copy in task["copies"]}
    seen: dict[str, int] = {}
    while not (folder / "finish").exists():
        for name, query in queries.items():
            _report(name, query, seen)
        time.sleep(0.05)
    for query in queries.values():
        query.processAllAvailable()
        query.stop()


def _start(spark: SparkSession, folder: Path, copy: dict[str, Any], pids: list[int]) -> StreamingQuery:
    """Start one copy and wait for its first batch, because Spark allows little time for starts."""
    name = copy["name"]
    reading = spark.readStream.format("mqplug").options(**copy["source"]).option("includeHeaders", "true")
    rows = reading.option("startingOffsets", "earliest").load()
    killed = {"pids": pids, "driver": str(folder / f"driver {name}"), "worker": str(folder / f"worker {name}")}
    writing = rows.select("key", "value", "headers", "partition").writeStream.format("killed_mqplug")
    writing = writing.options(**copy["target"]).option("killed", json.dumps(killed))
    writing = writing.trigger(processingTime="1 second")
    return _at_work(writing.option("checkpointLocation", str(folder / "checkpoints" / name)).start)


def _at_work(begin: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Return a query that has done a batch. Restart it if Spark's own start-up timed out."""
    end = time.monotonic() + START_TIMEOUT_S
    while True:
        query = begin()
        while query.lastProgress is None and query.isActive:
            assert time.monotonic() < end, "no batch was done"
            time.sleep(0.05)
        if query.isActive or "failed to connect back" not in str(query.exception()):
            return query


def _report(name: str, query: StreamingQuery, seen: dict[str, int]) -> None:
    """Print the current batch of a query. Raise the error that ended it."""
    if (error := query.exception()) is not None:
        raise error
    progress = query.lastProgress
    if progress is not None and progress.numInputRows and seen.get(name) != progress.batchId:
        seen[name] = progress.batchId
        sys.stdout.write(f"{name} {progress.batchId}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
