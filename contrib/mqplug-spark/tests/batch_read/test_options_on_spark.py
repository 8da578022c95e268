"""What the options of a batch read do on Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster, send
from pyspark.errors import PySparkException
from pyspark.sql.functions import col

from mqplug import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.python, pytest.mark.timeout(180)]  # the first test that needs Spark or a broker starts it
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def read(spark: SparkSession, cluster: Cluster) -> Callable[..., DataFrame]:
    """Return a function that reads the backend with these options."""
    return lambda **given: spark.read.format("mqplug").options(url=cluster.url, **given).load()


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    """Make Spark push filters down to Python sources."""
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def test_a_table_of_the_catalog_is_made(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    """CREATE TABLE ... USING mqplug creates a table. Spark loses its options: the error says how to give them."""
    send(cluster, topic, 3)
    spark.sql(f"CREATE TABLE stored_orders USING mqplug OPTIONS (url '{cluster.url}', subscribe '{topic}')")
    try:
        with pytest.raises(PySparkException, match="Spark loses the options of CREATE TABLE"):
            spark.sql("SELECT * FROM stored_orders").count()
        with_options = f"WITH (url = '{cluster.url}', subscribe = '{topic}')"
        assert spark.sql(f"SELECT * FROM stored_orders {with_options}").count() == 3
        assert spark.read.options(url=cluster.url, subscribe=topic).table("stored_orders").count() == 3
    finally:
        spark.sql("DROP TABLE stored_orders")


def test_topics_partitions_and_times_are_selected(
    read: Callable[..., DataFrame], cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    """A pattern, assigned partitions and times select messages; tasks are split if the backend can."""
    first, second = make_topic(partitions=2), make_topic(partitions=1)
    for topic in (first, second):
        with cluster.client.producer(topic) as out:
            out.send_many([Record(str(each).encode(), timestamp=1_000 * each + 1, partition=0) for each in range(10)])
    send(cluster, first, 4, partition=1)
    matching = {"subscribePattern": f"({first}|{second})"}
    assert dict(read(**matching).groupBy("topic").count().collect()) == {first: 14, second: 10}
    recent = read(**matching, startingTimestamp="-1 hour", endingTimestamp="253402300799999")
    stored_now = {first: 4} if cluster.has_offsets else {first: 14, second: 10}  # Pulsar searches by publish time
    assert dict(recent.groupBy("topic").count().collect()) == stored_now
    assigned = {"assign": json.dumps({first: [1], second: [0]})}
    assert read(**assigned).groupBy("topic", "partition").count().count() == 2
    if cluster.client.capabilities.advance:
        split = read(**assigned, minPartitions="6")
        assert (split.rdd.getNumPartitions(), split.count()) == (6, 14)
        timed = read(assign=json.dumps({first: [0]}), startingTimestamp="4001", endingTimestamp="6500")
        assert [int(row.value) for row in timed.collect()] == [4, 5, 6]


@pytest.mark.usefixtures("pushdown")
def test_filters_spare_what_is_not_asked_for(read: Callable[..., DataFrame], cluster: Cluster, topic: str) -> None:
    """With pushdown, partitions and ids that cannot match are not read; the rows are the same as without it."""
    ids = send(cluster, topic, 10, partition=0)
    send(cluster, topic, 10, partition=1)
    frame = read(subscribe=topic, includeId="true")
    assert frame.count() == 20
    one = frame.where((col("partition") == 1) & (col("value") > b"5"))
    assert one.rdd.getNumPartitions() == 1
    assert sorted(bytes(row.value) for row in one.collect()) == [b"6", b"7", b"8", b"9"]
    chosen = frame.where(col("id").isin(str(ids[3]), str(ids[7])))
    assert sorted(bytes(row.value) for row in chosen.collect()) == [b"3", b"7"]
    late = frame.where("timestamp > now() - INTERVAL 1 HOUR AND timestamp < now() + INTERVAL 1 HOUR")
    assert late.count() == 20
    assert frame.where("timestamp > now() + INTERVAL 1 HOUR OR partition = 5").count() == 0


def test_the_page_runs(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    """Each example of the page on batch reads runs, in order."""
    send(cluster, topic, 3)
    page = (Path(__file__).parents[2] / "docs" / "reading.md").read_text()
    names = {"spark": spark}
    for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(example.replace("kafka://broker:9092", cluster.url).replace('"orders"', f'"{topic}"'), names)
    assert names["today"].count() == names["values"].count() == names["orders"].count() == 3
