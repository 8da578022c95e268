"""Writes in transactions: the rows of a task become visible together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from mqplug import Client, Transaction
from mqplug_spark._options.write_options import Partitioner
from mqplug_spark._write.rows import TopicRows, WrittenRows
from mqplug_spark._write.task import Task

if TYPE_CHECKING:
    from types import TracebackType

NO_LIMIT: Final = (1 << 63) - 1  # of the queue of a transaction: flushes bound the memory
STEP_TIMEOUT_S: Final = 120.0  # for each begin, batch, flush and commit
FLUSH_BYTES: Final = 32 << 20  # in memory, before a flush
FLUSH_ROWS: Final = 50_000


def send_in_transaction(holder: Client, rows: WrittenRows, task: Task, partitioner: Partitioner) -> None:
    """Send the rows of a task in one transaction without a mark: a repeated task sends them again."""
    with task_transaction(holder, rows, task, partitioner) as step:
        for each in rows:
            step.send(each)


def task_transaction(holder: Client, rows: WrittenRows, task: Task, partitioner: Partitioner) -> TaskTransaction:
    """Return the transaction of a task."""
    step = holder.transaction(
        f"{task.mark.writer}-{task.number}", rows.topic, partitioner=partitioner, queue_messages=NO_LIMIT,
        queue_bytes=NO_LIMIT, timeout=STEP_TIMEOUT_S,
    )  # fmt: skip
    return TaskTransaction(step)


class TaskTransaction:
    """A transaction that is flushed now and then. Leaving the block commits it, unless an exception aborts it."""

    def __init__(self, step: Transaction) -> None:
        self._step = step
        self._rows = self._bytes = 0

    def send(self, rows: TopicRows) -> None:
        """Send rows. Flush after ``FLUSH_ROWS`` or ``FLUSH_BYTES``."""
        columns = rows.columns
        if rows.topic != self._step.topic:
            columns = columns.append_column("topic", pa.repeat(pa.scalar(rows.topic), len(columns)))
        self._step.send_many(columns, timeout=STEP_TIMEOUT_S)
        self._rows += len(columns)
        self._bytes += columns.nbytes
        if self._rows >= FLUSH_ROWS or self._bytes >= FLUSH_BYTES:
            self._step.flush(timeout=STEP_TIMEOUT_S)
            self._rows = self._bytes = 0

    def send_mark(self, record: Mapping[str, Any]) -> None:
        """Send a mark as the last record. Flush before it, because readers of marks then wait for the commit."""
        self._step.flush(timeout=STEP_TIMEOUT_S)
        self._step.send(**record, timeout=STEP_TIMEOUT_S)

    def __enter__(self) -> Self:
        self._step.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._step.__exit__(kind, error, trace)
