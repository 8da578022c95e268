"""A batch read: planned once, at the driver; each task reads one range of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from mqplug_spark._batch_read.filters import RowFilter, use_filters
from mqplug_spark._batch_read.planning import plan_ranges
from mqplug_spark._clients.process_clients import ask
from mqplug_spark._errors import cut_short, cut_short_while_reading
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.task_rows import task_rows
from mqplug_spark._rows.columns import ReadColumns

if TYPE_CHECKING:
    import pyarrow as pa


class MqplugReader(DataSourceReader):
    """What Spark pickles and sends to its tasks: it holds only settings."""

    def __init__(self, options: ReadOptions, columns: ReadColumns) -> None:
        self._options = options
        self._columns = columns
        self._asked: RowFilter | None = None
        self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def use(self, filters: Iterable[Any]) -> list[Any]:
        """Use the filters of a query, and return those that Spark has to apply itself."""
        self._asked, remaining = use_filters(filters)
        return remaining

    @cut_short
    def partitions(self) -> list[InputPartition]:
        """Return a range for each partition that has messages. Only this asks what the topics hold."""
        options = self._options
        ranges = ask(options.backend, lambda client: plan_ranges(client, options, self._asked))
        return [InputPartition(planned) for planned in ranges]

    @cut_short_while_reading
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range, in a task."""
        return task_rows(partition, self._options, self._columns)


class _PushFilters:
    """``pushFilters`` of a reader, which Spark calls only while ``spark.sql.python.filterPushdown.enabled`` is true.

    While it is false, Spark refuses a reader whose class defines the method: it compares ``__func__``.
    """

    __func__ = staticmethod(getattr(DataSourceReader, "pushFilters", print))  # it came with PySpark 4.1

    def __init__(self, reader: MqplugReader) -> None:
        self._reader = reader

    @cut_short
    def __call__(self, filters: Iterable[Any]) -> list[Any]:
        return self._reader.use(filters)
