"""The transactions of one task, which take little memory however many rows there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from mqplug import NotCommitted, Transaction
from mqplug_spark._write.fingerprint import Fingerprint
from mqplug_spark._write.task import Task

if TYPE_CHECKING:
    from types import TracebackType

STEP_TIMEOUT_S: Final = 120.0  # to begin, to send a batch, to flush, and to commit
FLUSH_BYTES: Final = 32 << 20  # in memory, before the backend is made to take them
FLUSH_ROWS: Final = 50_000


class TaskStep:
    """A step that is flushed now and then. Leaving the block commits, an exception in it aborts."""

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

    def __enter__(self) -> Self:
        self._step.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._step.__exit__(kind, error, trace)


class MarkedStep(TaskStep):
    """A step with a mark. If it was committed before, nothing is sent, and the rows are compared with those."""

    def __init__(self, step: Transaction, task: Task) -> None:
        super().__init__(step)
        self._task = task
        self._fingerprint = Fingerprint(task.mark.number)

    def send(self, columns: pa.RecordBatch) -> None:
        """Send rows, unless this was committed before."""
        self._fingerprint.add(columns)
        if not self._step.repeated:
            super().send(columns)

    def mark(self) -> None:
        """Have the rows told by the mark. Raise ``NotCommitted`` if other rows were committed before."""
        if not self._step.repeated:
            self._step.note = str(self._fingerprint)
            return
        before = Fingerprint.parse(self._step.note)
        if before is not None and before.number == self._fingerprint.number and before != self._fingerprint:
            raise NotCommitted(
                f"task {self._task.number} wrote other rows to {self._step.topic!r} under number {before.number} of "
                f"{self._task.mark.writer!r} before: {before.rows} then, {self._fingerprint.rows} now"
                f"{', with other content' if before.rows == self._fingerprint.rows else ''}",
                topic=self._step.topic, operation="write",
                fix="Nothing was written by this task now, but other tasks may have committed. Let each task have the "
                "same rows when it is repeated, or give the write another number",
            )  # fmt: skip
