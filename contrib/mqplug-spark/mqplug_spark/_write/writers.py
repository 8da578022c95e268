"""Batch and streaming writes: the driver checks the backend, tasks write or stage their rows, and the driver commits.

A streaming write is a batch write under the mark of the query and its batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeGuard

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from mqplug import Client, NotCommitted, Staged, Unsupported
from mqplug_spark._clients import ask
from mqplug_spark._errors import cut_short
from mqplug_spark._options.write_options import WriteMark, WriteOptions
from mqplug_spark._write.marks import marks_of, prepare_marks
from mqplug_spark._write.stages import ingest_all
from mqplug_spark._write.task import WrittenByTask, batch_task, stream_task
from mqplug_spark._write.task_write import write_rows

if TYPE_CHECKING:
    import pyarrow as pa

_checked: set[WriteOptions] = set()


class MqplugWriter(DataSourceArrowWriter):
    """A batch writer, which Spark pickles for its tasks: it holds only settings, and a name for this write."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._write = uuid.uuid4().hex

    @cut_short
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, or stage them."""
        return write_rows(self._options, batch_task(self._write, self._options.mark), iterator)

    @cut_short
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the staged rows of all tasks visible."""
        commit_all(self._options, messages)

    @cut_short
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged rows of all tasks."""
        abort_all(self._options, messages)


class MqplugStreamWriter(DataSourceStreamArrowWriter):
    """A streaming writer, which Spark pickles for its tasks. Another object commits, so messages carry the mark."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._execution = uuid.uuid4().hex  # Spark creates a writer for each batch

    @cut_short
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, or stage them."""
        return write_rows(self._options, stream_task(self._execution), iterator)

    @cut_short
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the staged rows of all tasks visible."""
        commit_all(self._options, messages)

    @cut_short
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the staged rows of all tasks."""
        abort_all(self._options, messages)


def check_backend(options: WriteOptions, *, stream: bool = False) -> None:
    """Raise if the backend does not support the options, or the topic does not exist.

    Spark creates the writer of a ``stream`` twice in each batch, so its options are checked only the first time.
    """
    if stream and options in _checked:
        return
    ask(options.backend, partial(_check, options, stream))
    if stream:
        _checked.add(options)


def _check(options: WriteOptions, stream: bool, client: Client) -> None:
    able = client.capabilities
    if options.mark is not None and not (able.staged_ingest or able.transactions):
        raise Unsupported(
            "transactions", f"{client.backend} cannot store rows exactly once, as 'writer' and 'number' require",
            backend=client.backend, operation="write",
            fix="Remove both options: a repeated write then stores its rows twice",
        )  # fmt: skip
    if options.topic is not None:
        client.describe(options.topic)
    if able.transactions and not able.staged_ingest and (stream or options.mark is not None):
        prepare_marks(client, options.marks_topic)


def commit_all(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Make the staged rows of all tasks visible. All other rows are already committed by their tasks."""
    written = list(filter(_is_written, messages))
    if staged := _staged(written):
        ingest_all(options.backend, staged, written[0].mark)
    elif written and written[0].execution is not None:
        ask(options.backend, partial(_end_marked, options, written[0].mark, written[0].execution))


def _end_marked(options: WriteOptions, mark: WriteMark, execution: str, client: Client) -> None:
    """Record that all rows are stored. Raise if a task of another execution committed during this one, unnoticed."""
    marks = marks_of(options, mark.writer)
    marks.read(client)
    if marks.done >= mark.number:
        return
    looks = marks.looks_of(mark.number, execution)
    unseen = [task for task in marks.of_others(mark.number, execution) if task not in looks or not looks[task].same]
    if unseen:
        raise NotCommitted(
            f"task {min(unseen)} of an earlier run of number {mark.number} of {mark.writer!r} committed its rows while "
            "this one ran: they may be stored twice", operation="write",
            fix="Stop the program of the earlier run before you start another, and remove the duplicate rows",
        )  # fmt: skip
    marks.store_done(client, mark.number)


def abort_all(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Remove the staged rows of all tasks. Rows that were sent remain."""
    if staged := _staged(list(filter(_is_written, messages))):
        ask(options.backend, lambda client: client.discard(staged))


def _staged(written: Sequence[WrittenByTask]) -> list[Staged]:
    return [each for task in written for each in task.staged]


def _is_written(message: WriterCommitMessage | None) -> TypeGuard[WrittenByTask]:
    return isinstance(message, WrittenByTask)
