"""Streaming readers for every supported PySpark: since 4.2 with limits and ``availableNow``, before that without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from mqplug import Unsupported
from mqplug_spark._columns import ReadColumns
from mqplug_spark._errors import cut_short, cut_short_while_reading
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.task_rows import task_rows
from mqplug_spark._stream_read.batch_planning import Progress
from mqplug_spark._stream_read.limits import limits_of
from mqplug_spark._stream_read.stream_offsets import StoredOffset, StreamOffset

if TYPE_CHECKING:
    import pyarrow as pa

HAS_LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None  # since PySpark 4.2

if HAS_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )


class StreamReader(DataSourceStreamReader):
    """A reader that Spark calls in the one process of a query, and pickles for its tasks, which only call ``read``."""

    knows_starts: ClassVar[bool]
    """Whether Spark passes the start of a batch when it asks for the end."""

    def __init__(self, options: ReadOptions, columns: ReadColumns) -> None:
        self._options = options
        self._columns = columns
        self._progress = Progress(options, knows_starts=self.knows_starts)

    @cut_short
    def initialOffset(self) -> StoredOffset:  # noqa: N802
        """Return where a new query begins. Spark asks twice and gets the same answer."""
        return self._progress.initial().to_store()

    @cut_short
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the ranges between two offsets, which together determine the batch."""
        ranges = self._progress.ranges(StreamOffset.from_stored(start), StreamOffset.from_stored(end))
        return [InputPartition(each) for each in ranges]

    @cut_short_while_reading
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range. Runs in a task."""
        return task_rows(partition, self._options, self._columns)


class UnlimitedStreamReader(StreamReader):
    """The reader for PySpark before 4.2, which does not pass the start of a batch and has no limits."""

    knows_starts = False

    @cut_short
    def latestOffset(self) -> StoredOffset:  # type: ignore[override]  # noqa: N802
        """Return the end of the stored messages."""
        return self._progress.latest().to_store()

    @cut_short
    def commit(self, end: Mapping[str, Any]) -> None:
        """Move ``commitGroup`` to the end of a processed batch."""
        self._progress.processed(StreamOffset.from_stored(end))


if HAS_LIMITS:

    class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
        """The reader for PySpark 4.2 or newer. Spark passes a batch's limit, or none if a trigger takes everything."""

        knows_starts = True

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            """Return the limit of the options. Spark accepts only one: with both, ``Progress`` applies the minimum."""
            options = self._options
            if options.max_offsets_per_trigger is not None:
                return ReadMaxRows(options.max_offsets_per_trigger)
            if options.min_offsets_per_trigger is not None:
                return ReadMinRows(options.min_offsets_per_trigger)
            return ReadAllAvailable()

        @cut_short
        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            """Record the end of the stored messages: the query reads up to it and ends."""
            self._progress.set_target()

        @cut_short
        def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> StoredOffset:  # noqa: N802
            """Return the end of the next batch, or ``start`` if there is none now."""
            reached = StreamOffset.from_stored(start)
            self._progress.processed(reached)
            limited = not isinstance(limit, ReadAllAvailable)
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return self._progress.next(reached, most=most, limited=limited).to_store()

        def reportLatestOffset(self) -> StoredOffset | None:  # noqa: N802
            """Return the end of the messages stored when the last batch was planned, for Spark's progress reports."""
            end = self._progress.seen
            return None if end is None else end.to_store()


def make_stream_reader(options: ReadOptions, columns: ReadColumns) -> StreamReader:
    """Return a reader with limits if PySpark has them. If not, return one without, and raise if an option sets one."""
    if HAS_LIMITS:
        return LimitedStreamReader(options, columns)
    if limits := limits_of(options):
        raise Unsupported(
            "limits", f"{limits[0]} needs PySpark 4.2 or newer, which passes the start of a batch to a source",
            fix=f"Use PySpark 4.2 or newer, or remove {' and '.join(limits)}",
        )  # fmt: skip
    return UnlimitedStreamReader(options, columns)
