"""The transaction of one task, which takes little memory however many rows there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from mqplug import Transaction

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

    def say(self, record: Mapping[str, Any]) -> None:
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
