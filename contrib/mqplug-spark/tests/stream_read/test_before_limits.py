"""A stream's reader as PySpark 4.1 calls it: without the start of a batch and without limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from clusters import Cluster, over, send, trim
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from mqplug import PositionLost, Unsupported
from mqplug_spark._columns import chosen_columns
from mqplug_spark._options.read_options import parse_options
from mqplug_spark._stream_read.reader import StreamReader, UnlimitedStreamReader, make_stream_reader

pytestmark = over("rocksmq")

COLUMNS = StructType([StructField("partition", IntegerType()), StructField("value", BinaryType())])


@pytest.fixture
def start(cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., UnlimitedStreamReader]:
    """Return a function that creates a reader as a new run of a query does."""
    monkeypatch.setattr("mqplug_spark._stream_read.reader.HAS_LIMITS", False)

    def make(**options: str) -> UnlimitedStreamReader:
        given = {"url": cluster.url, "subscribe": topic, "startingOffsets": "earliest", **options}
        reader = make_stream_reader(parse_options(given, "stream"), chosen_columns(COLUMNS))
        assert isinstance(reader, UnlimitedStreamReader)
        return reader

    return make


def stored(offset: Mapping[str, Any]) -> dict[str, Any]:
    """Return an offset in the form in which Spark returns it."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def rows(reader: StreamReader, begin: Mapping[str, Any], end: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return the rows of a batch: partitions and numbers."""
    return [
        (row["partition"], int(row["value"]))
        for planned in reader.partitions(stored(begin), stored(end))
        for batch in reader.read(planned)
        for row in batch.to_pylist()
    ]


def test_batches_join_over_a_restart(start: Callable[..., UnlimitedStreamReader], cluster: Cluster, topic: str) -> None:
    """Spark asks for the end before the start. A later run knows neither, and reads new partitions completely."""
    send(cluster, topic, 3)
    reader = start(commitGroup=f"old-{topic}")
    first = reader.latestOffset()
    send(cluster, topic, 2)
    assert rows(reader, reader.initialOffset(), first) == [(0, 0), (0, 1), (0, 2)]
    second = reader.latestOffset()
    reader.commit(stored(first))
    assert cluster.client.lag(topic, group=f"old-{topic}") == {0: 2, 1: 0}
    assert rows(reader, first, second) == [(0, 0), (0, 1)]
    cluster.client.add_partitions(topic, 3)
    send(cluster, topic, 1, partition=2)
    reader = start()
    assert rows(reader, second, reader.latestOffset()) == [(2, 0)]


def test_latest_is_where_the_first_look_was(
    start: Callable[..., UnlimitedStreamReader], cluster: Cluster, topic: str
) -> None:
    """Messages that arrive between the two calls are read by the next batch."""
    send(cluster, topic, 3)
    reader = start(startingOffsets="latest")
    first = reader.latestOffset()
    send(cluster, topic, 2)
    assert rows(reader, reader.initialOffset(), first) == []
    assert rows(reader, first, reader.latestOffset()) == [(0, 0), (0, 1)]


def test_retention_that_overtakes_a_stopped_query_is_noticed(
    start: Callable[..., UnlimitedStreamReader], cluster: Cluster, topic: str
) -> None:
    """The end of a batch holds the start of each log when it was planned, so losses are detected."""
    send(cluster, topic, 9)
    first = start(startingOffsets="latest").latestOffset()
    trim(cluster, send(cluster, topic, 3)[1])
    reader = start()
    with pytest.raises(PositionLost, match="before they were read"):
        rows(reader, first, reader.latestOffset())
    lenient = start(failOnDataLoss="false")
    assert rows(lenient, first, lenient.latestOffset()) == [(0, 1), (0, 2)]


def test_a_first_batch_runs_again_though_partitions_joined(
    start: Callable[..., UnlimitedStreamReader], cluster: Cluster, topic: str
) -> None:
    """Spark asks for the start again, which has a partition that the end does not have: the next batch reads it."""
    send(cluster, topic, 3)
    first = start().latestOffset()
    cluster.client.add_partitions(topic, 3)
    send(cluster, topic, 1, partition=2)
    reader = start()
    assert rows(reader, reader.initialOffset(), first) == [(0, 0), (0, 1), (0, 2)]
    assert rows(reader, first, reader.latestOffset()) == [(2, 0)]


@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_limits_are_refused_by_name(start: Callable[..., UnlimitedStreamReader], limit: str) -> None:
    """Limits need the start of a batch: the error names the PySpark that passes it."""
    with pytest.raises(Unsupported, match=rf"{limit} needs PySpark 4\.2 or newer"):
        start(**{limit: "10"})
