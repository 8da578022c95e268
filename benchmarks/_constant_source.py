"""A data source that yields one record batch repeatedly: the cost of rows from Python in Spark itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks._load import BATCH_MESSAGES, batch_values

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
"""The columns of spark-sql-kafka, which all sides read."""

_SCHEMA = pa.schema(
    {
        "key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"), "timestampType": pa.int32(),
    }
)  # fmt: skip
_BATCH_ROWS = 10 * BATCH_MESSAGES
_TIME_US = 1_700_000_000_000_000


class ConstantSource(DataSource):
    """Options: ``size`` of each value in bytes, ``rows`` of each partition, ``partitions``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "constant"

    def schema(self) -> str:
        """Return the columns of spark-sql-kafka."""
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a read of constant batches."""
        return _ConstantReader(int(self.options["size"]), int(self.options["rows"]), int(self.options["partitions"]))


class _ConstantReader(DataSourceReader):
    def __init__(self, size: int, rows: int, partitions: int) -> None:
        self._size = size
        self._rows = rows
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _constant_batch(self._size, partition.value)
        yield from repeat(batch, self._rows // _BATCH_ROWS)
        if rest := self._rows % _BATCH_ROWS:
            yield batch.slice(0, rest)


def _constant_batch(size: int, partition: int) -> pa.RecordBatch:
    values = batch_values(size) * (_BATCH_ROWS // BATCH_MESSAGES)
    columns = [
        [b"key-%d" % (number % 100) for number in range(_BATCH_ROWS)], values, ["constant"] * _BATCH_ROWS,
        [partition] * _BATCH_ROWS, range(_BATCH_ROWS), [_TIME_US] * _BATCH_ROWS, [None] * _BATCH_ROWS,
    ]  # fmt: skip
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=_SCHEMA)
