"""Reading on Spark, whose tasks run in separate processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster, over, points, send, trim
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

pytestmark = [pytest.mark.python, pytest.mark.timeout(180)]  # the first test that needs Spark or Kafka starts it


@pytest.fixture
def source(spark: SparkSession, cluster: Cluster, topic: str) -> DataFrameReader:
    """A read of the topic that needs no other options."""
    return spark.read.format("mqplug").option("url", cluster.url).option("subscribe", topic)


@over("rocksmq", "kafka", "pulsar")
def test_rows_are_the_messages(source: DataFrameReader, cluster: Cluster, topic: str) -> None:
    """Each row holds what a consumer receives: key, value, position, time, headers and id."""
    with cluster.client.producer(topic) as out:
        out.send(b"v", key=b"k", headers=[("a", b"1"), ("b", b"\xff"), ("a", None)], timestamp=1_700_000_000_123)
        out.send(None, key=b"\x00\xff", timestamp=1_700_000_000_124)
        out.send(b"", timestamp=1_700_000_000_125)
    rows = source.options(includeHeaders="true", includeId="true").load().collect()
    expected = {str(message.id): message for message in cluster.client.read(topic)}
    assert len(rows) == len(expected) == 3
    for row in rows:
        message = expected[row.id]
        assert (row.key, row.value, row.topic, row.partition) == (message.key, message.value, topic, message.partition)
        assert row.offset == (message.id.coordinates[0] if cluster.has_offsets else None)
        assert row.timestamp.timestamp() == message.timestamp.timestamp()
        assert row.timestampType == (0 if cluster.backend == "kafka" else None)
        assert [tuple(header) for header in row.headers or []] == list(message.headers)
        assert row.headers is None or row.headers


def test_the_schema_is_that_of_spark_sql_kafka(source: DataFrameReader) -> None:
    """Spark sees the columns of spark-sql-kafka."""
    assert source.load().schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )


def test_many_messages_of_all_partitions_are_read_in_order(
    source: DataFrameReader, cluster: Cluster, topic: str
) -> None:
    """No message is lost, repeated or reordered within a partition."""
    for partition in (0, 1):
        send(cluster, topic, 25_000, partition)
    rows = source.schema("partition int, value binary").load().collect()
    for partition in (0, 1):
        numbers = [int(row.value) for row in rows if row.partition == partition]
        assert numbers == list(range(25_000))


def test_an_empty_topic_has_no_rows(source: DataFrameReader) -> None:
    """A topic without messages is a data frame without rows."""
    assert source.load().collect() == []


def test_several_topics_are_one_data_frame(
    source: DataFrameReader, cluster: Cluster, topic: str, make_topic: Callable[..., str]
) -> None:
    """Topics separated by commas are read together."""
    other = make_topic(partitions=1)
    send(cluster, topic, 3)
    send(cluster, other, 2)
    frame = source.option("subscribe", f"{topic},{other}").load()
    assert dict(frame.groupBy("topic").count().collect()) == {topic: 3, other: 2}


@over("rocksmq", at_night=["kafka", "pulsar"])
def test_offsets_and_ids_begin_and_end_a_read(source: DataFrameReader, cluster: Cluster, topic: str) -> None:
    """JSON with offsets, words and ids bounds each partition; the end is exclusive."""
    first, second = send(cluster, topic, 10, partition=0), send(cluster, topic, 10, partition=1)
    start = first[2].coordinates[0] if cluster.has_offsets else str(first[2])
    read = source.option("startingOffsets", points(topic, start, -2)).option(
        "endingOffsets", points(topic, -1, str(second[3]))
    )
    rows = read.load().collect()
    assert sorted((row.partition, int(row.value)) for row in rows) == [
        *((0, number) for number in range(2, 10)),
        *((1, number) for number in range(3)),
    ]


def test_a_data_frame_is_bounded_when_it_is_first_used(source: DataFrameReader, cluster: Cluster, topic: str) -> None:
    """All actions on a data frame see the same messages; another load() also sees newer ones."""
    send(cluster, topic, 3)
    frame = source.load()
    assert frame.count() == 3
    send(cluster, topic, 2)
    assert frame.count() == len(frame.collect()) == 3
    assert source.load().count() == 5


def test_a_view_in_sql(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    """SQL creates a view of a topic with the same options."""
    send(cluster, topic, 3)
    given = f"url '{cluster.url}', topic '{topic}', includeId 'true'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING mqplug OPTIONS ({given})")
    assert spark.sql("SELECT count(*), count(DISTINCT id) FROM orders").first() == (3, 3)


def test_a_schema_chooses_columns(source: DataFrameReader, cluster: Cluster, topic: str) -> None:
    """The columns of the user's schema are read, in its order."""
    send(cluster, topic, 2)
    frame = source.schema("id string, value binary").load()
    assert frame.columns == ["id", "value"]
    assert sorted(bytes(row.value) for row in frame.collect()) == [b"0", b"1"]


def test_a_limit_ends_a_read_early(source: DataFrameReader, cluster: Cluster, topic: str) -> None:
    """A read that Spark stops early does not disturb the next one."""
    send(cluster, topic, 25_000)
    assert len(source.load().limit(1).collect()) == 1
    assert source.load().count() == 25_000


@over("rocksmq", at_night=["kafka"])
def test_lost_messages_are_an_error(source: DataFrameReader, cluster: Cluster, topic: str) -> None:
    """A start that retention removed fails the read, and the error says how to continue."""
    sent = send(cluster, topic, 10)
    trim(cluster, sent[5])
    lost = source.option("startingOffsets", points(topic, str(sent[2]), -2))
    with pytest.raises(PySparkException, match="failOnDataLoss=false to read the remaining messages"):
        lost.load().collect()


@over("rocksmq", at_night=["kafka"])
def test_lost_messages_are_stepped_over_where_allowed(source: DataFrameReader, cluster: Cluster, topic: str) -> None:
    """With failOnDataLoss=false, the remaining messages are read."""
    sent = send(cluster, topic, 10)
    trim(cluster, sent[5])
    lost = source.option("startingOffsets", points(topic, str(sent[2]), -2)).option("failOnDataLoss", "false")
    assert sorted(int(row.value) for row in lost.load().collect()) == [5, 6, 7, 8, 9]


def test_a_topic_that_is_not_there_is_named(source: DataFrameReader) -> None:
    """A missing topic raises TopicNotFound when the read is planned."""
    with pytest.raises(PySparkException, match=r"TopicNotFound.*nowhere"):
        source.option("subscribe", "nowhere").load().collect()


@over(at_night=["pulsar"])
def test_an_offset_is_refused_where_there_are_none(source: DataFrameReader, topic: str) -> None:
    """An offset on Pulsar is refused when the read is planned, and the error says what to write."""
    with pytest.raises(PySparkException, match="pulsar has no offsets: its ids have several parts"):
        source.option("startingOffsets", points(topic, 3, -2)).load().collect()
