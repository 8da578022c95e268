"""The rows of one task, of a batch and of a stream alike."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from mqplug_spark._clients.process_clients import drop_client, process_client
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.reading import read_planned
from mqplug_spark._rows.columns import ReadColumns


def task_rows(partition: InputPartition | None, options: ReadOptions, columns: ReadColumns) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one range. If none is planned, Spark passes None, or a partition of None."""
    if partition is None or partition.value is None:
        return
    get, drop = partial(process_client, options.backend), partial(drop_client, options.backend)
    for batch in read_planned(get, drop, partition.value, options):
        yield columns.record_batch(batch)
