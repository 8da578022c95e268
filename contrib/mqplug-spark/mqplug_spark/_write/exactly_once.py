"""Exactly-once writes in transactions: a mark of the task prevents storing its rows twice."""

from __future__ import annotations

import time
from typing import Final

from mqplug import Client, NotCommitted
from mqplug_spark._options.write_options import WriteOptions
from mqplug_spark._write.marks import Fingerprint, Look, Mark, Marks, marks_of
from mqplug_spark._write.rows import WrittenRows
from mqplug_spark._write.task import Task
from mqplug_spark._write.transactions import TaskTransaction, task_transaction

START_TIMEOUT_S: Final = 30.0  # in which one of the tasks that committed before must begin to compare its rows
PAUSE_S: Final = 0.3


def send_marked(client: Client, holder: Client, rows: WrittenRows, task: Task, options: WriteOptions) -> None:
    """Send the rows of a task in one transaction with its mark, unless they are already stored.

    ``holder`` takes the transaction over from earlier attempts of the task, which can then no longer commit. The marks
    are read after that.
    """
    with task_transaction(holder, rows, task, options.partitioner) as step:
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
        step.send(each)
    if sent.rows:
        step.send_mark(marks.rows_record(task.number, Mark(task.mark.number, task.execution, sent)))


def _compare(client: Client, rows: WrittenRows, task: Task, marks: Marks, before: Mark) -> None:
    """Send no rows. Store for the other tasks whether the rows are the same as those committed before."""
    number, execution = task.mark.number, task.execution
    if before.execution != execution:
        marks.store_look(client, task.number, Look(number, execution, None))
    now = _fingerprint(rows)
    if before.execution != execution:
        marks.store_look(client, task.number, Look(number, execution, now == before.rows))
    if now != before.rows:
        raise _refused(
            task,
            f"task {task.number} wrote different rows before: {before.rows.rows} then, {now.rows} now"
            f"{', with different content' if before.rows.rows == now.rows else ''}",
        )


def _wait_for_looks(client: Client, task: Task, marks: Marks) -> None:
    """Wait until each task that committed before has the same rows now, which proves that this task's are not stored.

    Raise ``NotCommitted`` if none of them compares its rows for a while: either the missing tasks have no core to run
    on, or they no longer exist because the rows are divided differently.
    """
    number, execution = task.mark.number, task.execution
    before = marks.of_others(number, execution).keys()
    deadline, seen = time.monotonic() + START_TIMEOUT_S, 0
    while before:
        found = {each: look.same for each, look in marks.looks_of(number, execution).items() if each in before}
        if False in found.values():
            raise _refused(task, "another task wrote different rows before")
        if None not in found.values() and len(found) == len(before):
            return
        if None in found.values() or len(found) > seen:
            deadline, seen = time.monotonic() + START_TIMEOUT_S, len(found)
        if time.monotonic() > deadline:
            missing = min(before - found.keys())
            raise _refused(task, f"task {missing} wrote rows before, but does not begin now")
        time.sleep(PAUSE_S)
        marks.read(client)


def _check_numbers(task: Task, marks: Marks) -> None:
    later = max((mark.number for mark in marks.by_task.values()), default=-1)
    if later > task.mark.number:
        raise NotCommitted(
            f"rows of the later number {later} of {task.mark.writer!r} are already written: number {task.mark.number} "
            "was not, and nothing of it is written now", operation="write",
            fix=f"Give this write a number above {later}. A stream that repeats an old batch needs another checkpoint",
        )  # fmt: skip


def _fingerprint(rows: WrittenRows) -> Fingerprint:
    found = Fingerprint()
    for each in rows:
        found.add(each.topic, each.columns)
    return found


def _refused(task: Task, what: str) -> NotCommitted:
    return NotCommitted(
        f"some rows of number {task.mark.number} of {task.mark.writer!r} were written before, and the rows are divided "
        f"differently now: {what}", operation="write",
        fix="Run the write as before: with as many cores, or one for each task, and with the same settings "
        "(minPartitions, shuffle partitions, sizes of file splits). This task wrote nothing now. If the rows cannot be "
        "computed again, remove the written rows, and give the write another number, or a stream another checkpoint",
    )  # fmt: skip
