"""Tests for every kind of session: on threads, as here, and where ``test_sessions.py`` runs this module again."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster, send
from continuous import process_all
from pyspark.errors import PySparkException

import mqplug

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None  # since PySpark 4.2

pytestmark = [pytest.mark.python, pytest.mark.timeout(360)]  # the first test that needs Spark starts it


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A RocksMQ store that this process owns, with a topic of two partitions and a thousand messages in each."""
    url = f"rocksmq://{tmp_path_factory.mktemp('store')}"
    with mqplug.connect(url) as client:
        made = Cluster(url, client)
        client.create_topic("orders", partitions=2)
        for partition in (0, 1):
            send(made, "orders", 1_000, partition)
        yield made


def test_a_batch_is_read(spark: SparkSession, store: Cluster) -> None:
    """A read finds the source by its name, and returns all messages."""
    frame = spark.read.format("mqplug").option("url", store.url).option("subscribe", "orders").load()
    found = frame.groupBy("partition").agg({"value": "count", "offset": "max"}).collect()
    assert {(row["partition"], row["count(value)"], row["max(offset)"]) for row in found} == {
        (0, 1_000, 999),
        (1, 1_000, 999),
    }


def test_a_batch_is_written(spark: SparkSession, store: Cluster) -> None:
    """A data frame is appended to a topic, each row once."""
    store.client.create_topic("written", partitions=2)
    rows = spark.range(500).selectExpr("string(id) AS value", "string(id % 7) AS key").repartition(2)
    rows.write.format("mqplug").mode("append").option("url", store.url).option("topic", "written").save()
    assert sorted(int(message.value or b"") for message in store.client.read("written")) == list(range(500))


@pytest.mark.night
def test_a_stream_goes_on_where_it_was(spark: SparkSession, store: Cluster, tmp_path: Path) -> None:
    """A stream reads all messages; after a restart it reads the newer ones."""
    store.client.create_topic("followed", partitions=2)
    source = spark.readStream.format("mqplug").option("url", store.url).option("subscribe", "followed")
    frame = source.option("startingOffsets", "earliest").load().selectExpr("partition", "string(value) AS number")
    out = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    for amount in (200, 300):
        for partition in (0, 1):
            send(store, "followed", amount, partition)
        process_all(lambda: out.start(str(tmp_path / "out")))
    read = spark.read.parquet(str(tmp_path / "out")).groupBy("partition").count().collect()
    assert {tuple(row) for row in read} == {(0, 500), (1, 500)}


@pytest.mark.skipif(HAS_LIMITS, reason="this PySpark has limits, and stream_read/test_on_spark.py tests them")
def test_limits_are_refused_where_pyspark_has_none(spark: SparkSession, store: Cluster, tmp_path: Path) -> None:
    """Before PySpark 4.2, an option that limits a batch is an error that names it, and says what to do."""
    source = spark.readStream.format("mqplug").option("url", store.url).option("subscribe", "orders")
    frame = source.option("maxOffsetsPerTrigger", "10").load()
    out = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(PySparkException, match=r"maxOffsetsPerTrigger needs PySpark 4\.2 or newer"):
        process_all(out.start)


def test_an_error_says_what_is_wrong(spark: SparkSession, store: Cluster) -> None:
    """An error of mqplug reaches the user with its message."""
    frame = spark.read.format("mqplug").option("url", store.url).option("subscribe", "nowhere").load()
    with pytest.raises(PySparkException, match=r"TopicNotFound: there is no topic 'nowhere'"):
        frame.collect()
    with pytest.raises(PySparkException, match="Did you mean 'startingOffsets'"):
        spark.read.format("mqplug").option("url", store.url).option("startingOfset", "latest").load().collect()
