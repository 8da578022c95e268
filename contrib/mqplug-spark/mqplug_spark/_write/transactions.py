"""Writes in transactions: the rows of a task become visible together, and a mark in the transaction makes them once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from mqplug import Client, NotCommitted, Transaction
from mqplug_spark._options.write_options import Partitioner, WriteOptions
from mqplug_spark._write.marks import Fingerprint, Look, Mark, Marks, marks_of
from mqplug_spark._write.rows import TopicRows, WrittenRows
from mqplug_spark._write.task import Task

if TYPE_CHECKING:
    from types import TracebackType

NO_LIMIT: Final = (1 << 63) - 1  # of a step: the flushes bound what is in memory
START_TIMEOUT_S: Final = 30.0  # in which one of the tasks that committed before begins to look at its rows
PAUSE_S: Final = 0.3
STEP_TIMEOUT_S: Final = 120.0  # to begin, to send a batch, to flush, and to commit
FLUSH_BYTES: Final = 32 << 20  # in memory, before the backend is made to take them
FLUSH_ROWS: Final = 50_000


def send_in_transaction(holder: Client, rows: WrittenRows, task: Task, partitioner: Partitioner) -> None:
    """Send the rows of a task in one transaction, which nothing marks: a task that is repeated sends them again."""
    with TaskTransaction(_transaction(holder, task, partitioner)) as step:
        for each in rows:
            step.send(_naming_topic(each))


def send_marked(client: Client, holder: Client, rows: WrittenRows, task: Task, options: WriteOptions) -> None:
    """Send the rows of a task in one transaction with its mark, unless they are stored already.

    ``holder`` takes the transaction over from earlier attempts of the task, which can commit nothing from then on. So
    the marks are read after that.
    """
    with TaskTransaction(_transaction(holder, task, options.partitioner)) as step:
        marks = marks_of(options, task.mark.writer)
        marks.read(client)
        mark = marks.by_task.get(task.number)
        if marks.done >= task.mark.number:
            _fingerprint(rows)
        elif mark is not None and mark.number == task.mark.number:
            _compare(client, rows, task, marks, mark)
        else:
            _send(client, step, rows, task, marks)


def _send(client: Client, step: TaskTransaction, rows: WrittenRows, task: Task, marks: Marks) -> None:
    sent = Fingerprint()
    for each in rows:
        if not sent.rows:
            _check_numbers(task, marks)
            _wait_for_looks(client, task, marks)
        sent.add(each.topic, each.columns)
        step.send(_naming_topic(each))
    if sent.rows:
        step.send_mark(marks.rows_record(task.number, Mark(task.mark.number, task.execution, sent)))


def _compare(client: Client, rows: WrittenRows, task: Task, marks: Marks, before: Mark) -> None:
    """Send nothing, but tell the other tasks whether the rows are those that were committed before."""
    number, execution = task.mark.number, task.execution
    if before.execution != execution:
        marks.store_look(client, task.number, Look(number, execution, None))
    now = _fingerprint(rows)
    if before.execution != execution:
        marks.store_look(client, task.number, Look(number, execution, now == before.rows))
    if now != before.rows:
        raise _refused(
            task,
            f"task {task.number} wrote other rows before: {before.rows.rows} then, {now.rows} now"
            f"{', with other content' if before.rows.rows == now.rows else ''}",
        )


def _wait_for_looks(client: Client, task: Task, marks: Marks) -> None:
    """Wait until each task that committed before was found to have the same rows now: then these are not stored yet.

    While none of them looks at its rows for a while, none of those that are missing has a place to run, or it is not
    there any more, because the rows are divided otherwise.
    """
    number, execution = task.mark.number, task.execution
    before = marks.of_others(number, execution).keys()
    deadline, seen = time.monotonic() + START_TIMEOUT_S, 0
    while before:
        found = {each: look.same for each, look in marks.looks_of(number, execution).items() if each in before}
        if False in found.values():
            raise _refused(task, "another task wrote other rows before")
        if None not in found.values() and len(found) == len(before):
            return
        if None in found.values() or len(found) > seen:
            deadline, seen = time.monotonic() + START_TIMEOUT_S, len(found)
        if time.monotonic() > deadline:
            missing = min(before - found.keys())
            raise _refused(task, f"task {missing} wrote rows before, and does not begin now")
        time.sleep(PAUSE_S)
        marks.read(client)


def _check_numbers(task: Task, marks: Marks) -> None:
    later = max((mark.number for mark in marks.by_task.values()), default=-1)
    if later > task.mark.number:
        raise _refused(task, f"rows were written under the number {later} before")


def _fingerprint(rows: WrittenRows) -> Fingerprint:
    found = Fingerprint()
    for each in rows:
        found.add(each.topic, each.columns)
    return found


def _refused(task: Task, what: str) -> NotCommitted:
    return NotCommitted(
        f"the rows of number {task.mark.number} of {task.mark.writer!r} were written in part before, and are divided "
        f"otherwise now: {what}", operation="write",
        fix="Nothing was written by this task now. Run it as before: with as many cores as then, or one for each task, "
        "and with the same settings (minPartitions, shuffle partitions, sizes of file splits). If its rows cannot be "
        "computed again, remove what it wrote, and give it another number, or a stream another checkpoint",
    )  # fmt: skip


def _transaction(holder: Client, task: Task, partitioner: Partitioner) -> Transaction:
    return holder.transaction(
        f"{task.mark.writer}-{task.number}", partitioner=partitioner, queue_messages=NO_LIMIT, queue_bytes=NO_LIMIT,
        timeout=STEP_TIMEOUT_S,
    )  # fmt: skip


def _naming_topic(rows: TopicRows) -> pa.RecordBatch:
    return rows.columns.append_column("topic", pa.repeat(pa.scalar(rows.topic), len(rows.columns)))


class TaskTransaction:
    """A transaction that is flushed now and then. Leaving the block commits, an exception in it aborts."""

    def __init__(self, step: Transaction) -> None:
        self._step = step
        self._rows = self._bytes = 0

    def send(self, columns: pa.RecordBatch) -> None:
        """Send rows. Wait for the backend once there are many."""
        self._step.send_many(columns, timeout=STEP_TIMEOUT_S)
        self._rows += len(columns)
        self._bytes += columns.nbytes
        if self._rows >= FLUSH_ROWS or self._bytes >= FLUSH_BYTES:
            self._step.flush(timeout=STEP_TIMEOUT_S)
            self._rows = self._bytes = 0

    def send_mark(self, record: Mapping[str, Any]) -> None:
        """Send a mark as the last record. Readers of marks wait for the end from then on, so let it be near."""
        self._step.flush(timeout=STEP_TIMEOUT_S)
        self._step.send(**record, timeout=STEP_TIMEOUT_S)

    def __enter__(self) -> Self:
        self._step.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._step.__exit__(kind, error, trace)
