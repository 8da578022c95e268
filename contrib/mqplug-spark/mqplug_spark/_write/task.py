"""The Spark task that runs in this process, the streaming query that it belongs to, and its report to the driver."""

from __future__ import annotations

import attrs
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from mqplug import Staged
from mqplug_spark._options.write_options import WriteMark


@attrs.frozen
class Task:
    """A task: its number within the write, the mark of the write, and a name for this execution of the write.

    ``once``: rows that were written under the mark before are not written again, so the mark must outlive the write.
    """

    number: int
    mark: WriteMark
    once: bool
    execution: str


def batch_task(write: str, mark: WriteMark | None) -> Task:
    """Return the current task of a batch write. Without a mark, it gets one from the name of the write, used once."""
    return Task(_context().partitionId(), mark or WriteMark(f"spark-{write}", 0), mark is not None, write)


def stream_task(execution: str) -> Task:
    """Return the current task of a streaming write. Its mark combines the ids of the query and the batch."""
    context = _context()
    query, batch = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise RuntimeError("Spark did not pass the ids of the streaming query and the batch to this task")
    return Task(context.partitionId(), WriteMark(f"spark-{query}", int(batch)), True, execution)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a write must run in a Spark task")
    return context


@attrs.frozen
class WrittenByTask(WriterCommitMessage):
    """The number of a task's rows, and their stages, which the driver ingests under the mark.

    ``execution`` is set if the task committed its rows with a mark.
    """

    rows: int
    mark: WriteMark
    staged: tuple[Staged, ...] = ()
    execution: str | None = None
