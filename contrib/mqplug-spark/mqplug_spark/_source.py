"""The data source and reader that Spark calls. It pickles them and makes several of each, so they hold only settings.

Other modules are imported where they are needed, because Spark imports this one to discover data sources.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from mqplug_spark._columns import ReadColumns
    from mqplug_spark._options import ReadOptions


class MqplugDataSource(DataSource):
    """The data source of ``format("mqplug")``: the messages of topics as rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "mqplug"

    def schema(self) -> StructType:
        """Return all columns, with ``headers`` if the option ``includeHeaders`` is true."""
        from mqplug_spark._columns import all_columns
        from mqplug_spark._options import parse_options

        with _errors_cut_short():
            options = parse_options(self.options)
        return all_columns(include_headers=options.include_headers).spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch read of these columns, which may be some of them."""
        from mqplug_spark._columns import chosen_columns
        from mqplug_spark._options import parse_options

        with _errors_cut_short():
            return MqplugReader(parse_options(self.options), chosen_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raise ``Unsupported``."""
        _refuse("write", "mqplug-spark does not write yet", "Send from foreachPartition with mqplug.connect")

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        """Raise ``Unsupported``."""
        _refuse("readStream", "mqplug-spark does not read streams yet", "Use spark.read in batches")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        """Raise ``Unsupported``."""
        _refuse("writeStream", "mqplug-spark does not write streams yet", "Send from foreachBatch with mqplug.connect")


class MqplugReader(DataSourceReader):
    """A read that is planned once, at the driver; each task reads one range of one partition."""

    def __init__(self, options: ReadOptions, columns: ReadColumns) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return a range for each partition that has messages. Only this asks for the topics' watermarks."""
        from mqplug_spark._planning import plan_ranges
        from mqplug_spark._reading import connect

        options = self._options
        with _errors_cut_short():
            with connect(options.url) as client:
                marks = {topic: client.watermarks(topic) for topic in options.topics}
            return [InputPartition(planned) for planned in plan_ranges(options, marks)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range. If none is planned, Spark passes None, or a partition of None."""
        from mqplug_spark._reading import connect, read_planned

        if partition is None or partition.value is None:
            return
        with _errors_cut_short():
            for batch in read_planned(partial(connect, self._options.url), partition.value, self._options):
                yield self._columns.record_batch(batch)


@contextmanager
def _errors_cut_short() -> Iterator[None]:
    """Drop the chain of tracebacks from errors, which Spark would show to users in full."""
    from mqplug import Error

    try:
        yield
    except Error as error:
        raise error.with_traceback(None) from None


def _refuse(capability: str, message: str, fix: str) -> NoReturn:
    from mqplug import Unsupported

    raise Unsupported(capability, message, fix=fix)
