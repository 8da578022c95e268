"""What Spark calls. Spark pickles these objects and makes several of each, so they hold settings and nothing else.

Everything else is imported where it is needed: Spark imports this module to find out what data sources there are.
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
    """``format("mqplug")``: the messages of topics as rows."""

    @classmethod
    def name(cls) -> str:
        """What stands in ``format(...)``."""
        return "mqplug"

    def schema(self) -> StructType:
        """All columns; ``headers`` where they are asked for."""
        from mqplug_spark._columns import all_columns
        from mqplug_spark._options import parse_options

        with _errors_cut_short():
            options = parse_options(self.options)
        return all_columns(include_headers=options.include_headers).spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read of these columns, which may be fewer than all."""
        from mqplug_spark._columns import chosen_columns
        from mqplug_spark._options import parse_options

        with _errors_cut_short():
            return MqplugReader(parse_options(self.options), chosen_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Not there yet."""
        _refuse("write", "mqplug-spark does not write yet", "Send from foreachPartition with mqplug.connect")

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        """Not there yet."""
        _refuse("readStream", "mqplug-spark does not read streams yet", "Use spark.read in batches")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        """Not there yet."""
        _refuse("writeStream", "mqplug-spark does not write streams yet", "Send from foreachBatch with mqplug.connect")


class MqplugReader(DataSourceReader):
    """Plans a read once, at the driver, and reads one range of one partition in each task."""

    def __init__(self, options: ReadOptions, columns: ReadColumns) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """One range for each partition that has messages; what the topics hold is asked once, here."""
        from mqplug_spark._planning import plan_ranges
        from mqplug_spark._reading import connect

        options = self._options
        with _errors_cut_short():
            with connect(options.url) as client:
                marks = {topic: client.watermarks(topic) for topic in options.topics}
            return [InputPartition(planned) for planned in plan_ranges(options, marks)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one range. Where nothing was planned Spark hands over a partition of None, or just None."""
        from mqplug_spark._reading import connect, read_planned

        if partition is None or partition.value is None:
            return
        with _errors_cut_short():
            for batch in read_planned(partial(connect, self._options.url), partition.value, self._options):
                yield self._columns.record_batch(batch)


@contextmanager
def _errors_cut_short() -> Iterator[None]:
    """Spark shows users the whole chain of tracebacks: leave what the error itself says."""
    from mqplug import Error

    try:
        yield
    except Error as error:
        raise error.with_traceback(None) from None


def _refuse(capability: str, message: str, fix: str) -> NoReturn:
    from mqplug import Unsupported

    raise Unsupported(capability, message, fix=fix)
