"""Batch reads without Spark: a source's reader, called as Spark calls it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

import mqplug
from mqplug_spark import MqplugDataSource

COLUMNS = StructType().add("partition", "integer").add("value", "binary")


def reader_of(given: Mapping[str, str], schema: StructType = COLUMNS) -> DataSourceReader:
    """Return the reader of a source with these options."""
    return MqplugDataSource(dict(given)).reader(schema)


def rows_of(reader: DataSourceReader, planned: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the rows of planned partitions, in order."""
    found: list[dict[str, Any]] = []
    for each in planned:
        batches: Any = reader.read(each)  # Spark's type has no Arrow batches in some releases
        for batch in batches:
            assert isinstance(batch, pa.RecordBatch)
            found += batch.to_pylist()
    return found


def numbers_of(given: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return the partition and the number in the value of each row that these options read."""
    reader = reader_of(given)
    return [(row["partition"], int(row["value"])) for row in rows_of(reader, reader.partitions())]


def plan(held: Any, *filters: Any, **given: str) -> list[Any]:
    """Return the ranges of a read of ``orders``, unless the options select other topics.

    ``held`` is the URL of a backend, or a client that answers the questions of planning.
    """
    selecting = {} if given.keys() & {"subscribePattern", "assign", "subscribe"} else {"subscribe": "orders"}
    url = held if isinstance(held, str) else f"kafka://{uuid.uuid4().hex}"  # another one is another connection
    with pytest.MonkeyPatch.context() as patch:
        if not isinstance(held, str):
            patch.setattr(mqplug, "connect", lambda *_, **__: held)
        reader = reader_of({"url": url, **selecting, **given})
        list(reader.pushFilters(list(filters)))
        return [each.value for each in reader.partitions()]
