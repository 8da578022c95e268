"""A Spark driver that writes a source to a topic: ``killed_batch_program.py TASK``, a JSON object.

It takes the ``source``: text, rate-micro-batch or mqplug, with its ``options``; the ``target``: url and topic; the
``checkpoint``, the ``master``, Spark's ``settings``, and ``committed``: None, or the number of a task. Everything is
killed when this task has committed, before any other does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mqplug_spark import MqplugDataSource


class KilledSource(MqplugDataSource):
    """The source, with a sink that kills everything when one of its tasks has committed."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "killed_mqplug"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KilledWriter:  # noqa: N802
        """Return mqplug's sink inside one that kills."""
        options = {name: text for name, text in self.options.items() if name != "killed"}
        return KilledWriter(MqplugDataSource(options).streamWriter(schema, overwrite), self.options["killed"])


class KilledWriter(DataSourceStreamArrowWriter):
    """Writes as mqplug does in one task, then kills everything; the other tasks wait for that."""

    def __init__(self, sink: Any, killed: str) -> None:
        self._sink = sink
        self._killed = json.loads(killed)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        context = TaskContext.get()
        assert context is not None
        while context.partitionId() != self._killed["committed"]:
            time.sleep(0.1)
            if os.getppid() == 1 or not Path(f"/proc/{self._killed['pids'][0]}").exists():
                os._exit(1)  # the driver is gone
        message = self._sink.write(iterator)
        for pid in self._killed["pids"]:
            os.kill(pid, signal.SIGKILL)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Never reached."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Never reached."""


def main(task: dict[str, Any]) -> None:
    """Write everything from the source, or be killed."""
    spark = SparkSession.builder.master(task["master"]).config(map=task["settings"]).getOrCreate()
    reader = spark.readStream.format(task["source"]).options(**task["options"])
    frame = reader.load(task["folder"]) if task["source"] == "text" else reader.load()
    writing = frame.selectExpr("cast(value as string) as value").writeStream.options(**task["target"])
    writing = writing.option("checkpointLocation", task["checkpoint"]).trigger(availableNow=True)
    if task["committed"] is None:
        writing = writing.format("mqplug")
    else:
        spark.dataSource.register(KilledSource)
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        pids = [os.getpid(), jvm.java.lang.ProcessHandle.current().pid()]
        killed = json.dumps({"pids": pids, "committed": task["committed"]})
        writing = writing.format("killed_mqplug").option("killed", killed)
    writing.start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
