"""A streaming write: as a batch write, under the mark of the query and its batch."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from mqplug_spark._errors import cut_short
from mqplug_spark._options.write_options import WriteOptions
from mqplug_spark._write.driver import abort_all, commit_all
from mqplug_spark._write.task import stream_task
from mqplug_spark._write.task_writing import write_rows

if TYPE_CHECKING:
    import pyarrow as pa


class MqplugStreamWriter(DataSourceStreamArrowWriter):
    """What Spark pickles and sends to its tasks. It commits on another object, so that messages carry the mark."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._execution = uuid.uuid4().hex  # Spark makes a writer for each batch

    @cut_short
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, or stage them."""
        return write_rows(self._options, stream_task(self._execution), iterator)

    @cut_short
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make visible what tasks staged."""
        commit_all(self._options, messages)

    @cut_short
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what tasks staged."""
        abort_all(self._options, messages)
