"""The data source that Spark looks up by name.

Spark pickles it and creates several instances, so it holds only the options. Everything else is imported where it is
needed, because Spark imports this module in every program that names any data source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from mqplug_spark._errors import cut_short, cut_short_at_first_use

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class MqplugDataSource(DataSource):
    """The data source of ``format("mqplug")``: the messages of topics as rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "mqplug"

    @cut_short
    def schema(self) -> StructType:
        """Return all columns; ``headers`` and ``id`` only if ``includeHeaders`` and ``includeId`` are true."""
        from mqplug_spark._columns import all_columns
        from mqplug_spark._options.read_options import parse_options

        options = parse_options(self.options)
        return all_columns(include_headers=options.include_headers, include_id=options.include_id).spark_schema()

    @cut_short
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch reader for the columns of ``schema``, which may be a subset."""
        from mqplug_spark._batch_read import MqplugReader
        from mqplug_spark._columns import chosen_columns
        from mqplug_spark._options.read_options import parse_options

        return MqplugReader(parse_options(self.options, "batch"), chosen_columns(schema))

    @cut_short
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a batch writer for rows with this schema. Raise ``Unsupported`` for the mode ``overwrite``."""
        from mqplug_spark._columns import check_written_schema
        from mqplug_spark._options.write_options import parse_write_options
        from mqplug_spark._write.writers import MqplugWriter, check_backend

        if overwrite:
            _refuse("overwrite", "a topic cannot be overwritten, only appended to", "Set mode('append')")
        options = parse_write_options(self.options)
        check_written_schema(schema, options.topic, options=bool(self.options))
        check_backend(options)
        return MqplugWriter(options)

    @cut_short_at_first_use
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a streaming reader for the columns of ``schema``, with limits if this PySpark has them."""
        from mqplug_spark._columns import chosen_columns
        from mqplug_spark._options.read_options import parse_options
        from mqplug_spark._stream_read.reader import make_stream_reader

        return make_stream_reader(parse_options(self.options, "stream"), chosen_columns(schema))

    @cut_short
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return a streaming writer for rows with this schema. Raise ``Unsupported`` for the mode ``complete``."""
        from mqplug_spark._columns import check_written_schema
        from mqplug_spark._options.write_options import parse_stream_write_options
        from mqplug_spark._write.writers import MqplugStreamWriter, check_backend

        if overwrite:
            _refuse(
                "complete", "a topic cannot be overwritten, only appended to",
                "Set outputMode('append'), or write each batch of results with foreachBatch",
            )  # fmt: skip
        options = parse_stream_write_options(self.options)
        check_written_schema(schema, options.topic)
        check_backend(options, stream=True)
        return MqplugStreamWriter(options)


def _refuse(capability: str, message: str, fix: str) -> NoReturn:
    from mqplug import Unsupported

    raise Unsupported(capability, message, fix=fix)
