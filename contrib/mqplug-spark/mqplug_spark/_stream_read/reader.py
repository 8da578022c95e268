"""A streaming read, as every supported PySpark calls it: since 4.2 with limits and ``availableNow``, before without."""

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
from mqplug_spark._stream_read.limits import limits_of
from mqplug_spark._stream_read.progress import Progress
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


if HAS_LIMITS:

    class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
        """Plans batches within limits. Spark names the limit, or none where its trigger takes all at once."""

        knows_starts = True

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            """Return the limit of the options. Spark knows no pair: with both, the least is applied here."""
            options = self._options
            if options.max_offsets_per_trigger is not None:
                return ReadMaxRows(options.max_offsets_per_trigger)
            if options.min_offsets_per_trigger is not None:
                return ReadMinRows(options.min_offsets_per_trigger)
            return ReadAllAvailable()

        @cut_short
        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            """Note the end of all that is stored: the query reads up to it, and ends."""
            self._progress.set_target()

        @cut_short
        def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> StoredOffset:  # noqa: N802
            """Return the end of the next batch, which is ``start`` if there is none now."""
            reached = StreamOffset.from_stored(start)
            self._progress.processed(reached)
            limited = not isinstance(limit, ReadAllAvailable)
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return self._progress.next(reached, most=most, limited=limited).to_store()

        def reportLatestOffset(self) -> StoredOffset | None:  # noqa: N802
            """Return the end of all that was stored when the last batch was planned, for the progress of the query."""
            end = self._progress.seen
            return None if end is None else end.to_store()


def make_stream_reader(options: ReadOptions, columns: ReadColumns) -> StreamReader:
    """Return a reader with limits, or where PySpark has none a reader without. Then raise for options that set one."""
    if HAS_LIMITS:
        return LimitedStreamReader(options, columns)
    if limits := limits_of(options):
        raise Unsupported(
            "limits", f"{limits[0]} needs PySpark 4.2 or newer, which tells a source where a batch begins",
            fix=f"Use PySpark 4.2, or leave {' and '.join(limits)} out",
        )  # fmt: skip
    return UnlimitedStreamReader(options, columns)
