"""The task of Spark that runs in this process, the streaming query that it belongs to, and its report to the driver."""

from __future__ import annotations

import attrs
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from mqplug import Staged
from mqplug_spark._options.write_options import WriteMark


@attrs.frozen
class Task:
    """A task: its number among those of the write, the mark of the write, and a name for this execution of it.

    ``once``: what was written under the mark before is not written again, so that the mark has to outlive the write.
    """

    number: int
    mark: WriteMark
    once: bool
    execution: str


def batch_task(write: str, mark: WriteMark | None) -> Task:
    """Return the task of a batch write that runs here. Without a mark, the name of the write is one, used only once."""
    return Task(_context().partitionId(), mark or WriteMark(f"spark-{write}", 0), mark is not None, write)


def stream_task(execution: str) -> Task:
    """Return the task of a streaming write that runs here. Its mark is made of the query and its batch."""
    context = _context()
    query, batch = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise RuntimeError("Spark does not tell this task which streaming query and batch it belongs to")
    return Task(context.partitionId(), WriteMark(f"spark-{query}", int(batch)), True, execution)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a write runs in tasks of Spark only")
    return context


@attrs.frozen
class WrittenByTask(WriterCommitMessage):
    """The number of rows, and what is staged of them: the driver ingests that under the mark.

    ``execution`` is that of a write whose tasks have committed under marks.
    """

    rows: int
    mark: WriteMark
    staged: tuple[Staged, ...] = ()
    execution: str | None = None
