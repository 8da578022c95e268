"""What works on every kind of session: on threads, as here, and where ``test_sessions.py`` runs this module again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster, send
from pyspark.errors import PySparkException

import mqplug

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(240)  # the first test that asks for Spark starts it


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
    """A read finds the source by its name, and all messages."""
    frame = spark.read.format("mqplug").option("url", store.url).option("subscribe", "orders").load()
    found = frame.groupBy("partition").agg({"value": "count", "offset": "max"}).collect()
    assert {(row["partition"], row["count(value)"], row["max(offset)"]) for row in found} == {
        (0, 1_000, 999),
        (1, 1_000, 999),
    }


def test_an_error_says_what_is_wrong(spark: SparkSession, store: Cluster) -> None:
    """An error of mqplug reaches the user with its words."""
    frame = spark.read.format("mqplug").option("url", store.url).option("subscribe", "nowhere").load()
    with pytest.raises(PySparkException, match=r"TopicNotFound: there is no topic 'nowhere'"):
        frame.collect()
    with pytest.raises(PySparkException, match="Did you mean 'startingOffsets'"):
        spark.read.format("mqplug").option("url", store.url).option("startingOfset", "latest").load().collect()
