"""A batch write: tasks write or stage their rows, and the driver commits."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from mqplug_spark._errors import cut_short
from mqplug_spark._options.write_options import WriteOptions
from mqplug_spark._write.driver import abort_all, commit_all
from mqplug_spark._write.task import batch_task
from mqplug_spark._write.task_writing import write_rows

if TYPE_CHECKING:
    import pyarrow as pa


class MqplugWriter(DataSourceArrowWriter):
    """What Spark pickles and sends to its tasks: it holds only settings, and a name for this write."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._write = uuid.uuid4().hex

    @cut_short
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, or stage them."""
        return write_rows(self._options, batch_task(self._write, self._options.mark), iterator)

    @cut_short
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make visible what tasks staged."""
        commit_all(self._options, messages)

    @cut_short
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks staged."""
        abort_all(self._options, messages)
