"""A streaming read: what every supported PySpark calls. Each batch reads all that is stored when it is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from mqplug_spark._errors import cut_short, cut_short_while_reading
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.task_rows import task_rows
from mqplug_spark._rows.columns import ReadColumns
from mqplug_spark._stream_read.progress import Progress
from mqplug_spark._stream_read.stream_offsets import StoredOffset, StreamOffset

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader):
    """What Spark calls in the one process of a query, and pickles for the tasks, which call ``read`` alone."""

    knows_starts: ClassVar[bool]
    """Whether Spark tells where a batch begins when it asks where it ends."""

    def __init__(self, options: ReadOptions, columns: ReadColumns) -> None:
        self._options = options
        self._columns = columns
        self._progress = Progress(options, knows_starts=self.knows_starts)

    @cut_short
    def initialOffset(self) -> StoredOffset:  # noqa: N802
        """Return where a new query begins. Spark asks twice: the answer stays the same."""
        return self._progress.initial().to_store()

    @cut_short
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the ranges between two offsets, which tell all that is needed."""
        ranges = self._progress.ranges(StreamOffset.from_stored(start), StreamOffset.from_stored(end))
        return [InputPartition(each) for each in ranges]

    @cut_short_while_reading
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range, in a task."""
        return task_rows(partition, self._options, self._columns)


class UnlimitedStreamReader(StreamReader):
    """The reader for PySpark before 4.2, which does not tell where a batch begins, and knows no limits."""

    knows_starts = False

    @cut_short
    def latestOffset(self) -> StoredOffset:  # type: ignore[override]  # noqa: N802
        """Return the end of all that is stored."""
        return self._progress.latest().to_store()

    @cut_short
    def commit(self, end: Mapping[str, Any]) -> None:
        """Move ``commitGroup`` to the end of a batch that is processed."""
        self._progress.processed(StreamOffset.from_stored(end))
