"""Errors on Spark come when a data frame is created or planned, with mqplug's message and without secrets."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster, send
from pyspark.errors import PySparkException
from queries import finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(180)  # the first test that needs Spark starts it


def only_line(raised: pytest.ExceptionInfo[PySparkException]) -> str:
    """The text of an error, which must have no traceback."""
    text = str(raised.value)
    assert "Traceback" not in text
    assert 'File "' not in text
    return text


def test_a_plan_that_fails_shows_one_line(spark: SparkSession, cluster: Cluster) -> None:
    """The first line of a planning error has mqplug's error and its fix, without a traceback."""
    frame = spark.read.format("mqplug").option("url", cluster.url).option("subscribe", "nowhere").load()
    with pytest.raises(PySparkException) as refused:
        frame.count()
    assert re.search(r"TopicNotFound: .*'nowhere'", only_line(refused).splitlines()[0])


def test_a_task_that_fails_shows_one_line(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    """A topic that is recreated between plan and task fails the task, without Python frames."""
    send(cluster, topic, 10)
    frame = spark.read.format("mqplug").option("url", cluster.url).option("subscribe", topic).load()
    assert frame.count() == 10
    cluster.client.delete_topic(topic)
    cluster.client.create_topic(topic, partitions=2)
    send(cluster, topic, 20)
    with pytest.raises(PySparkException) as refused:
        frame.count()
    assert re.search(rf"mqplug\S*(InvalidMessageId|PositionLost|TopicNotFound): .*{topic}", only_line(refused))


def test_a_stream_that_fails_shows_one_line(spark: SparkSession, cluster: Cluster) -> None:
    """The first line of a stream's error has mqplug's error, without a traceback."""
    frame = spark.readStream.format("mqplug").option("url", cluster.url).option("topic", "nowhere").load()
    with pytest.raises(PySparkException) as refused:
        finished(frame.writeStream.format("noop").start)
    assert re.search(r"mqplug\S*(TopicNotFound|Unsupported): ", only_line(refused).splitlines()[0])


def test_errors_of_other_code_keep_their_traceback(spark: SparkSession, cluster: Cluster) -> None:
    """If a Python function fails after a read failed, Spark shows its frames as always."""
    with pytest.raises(PySparkException):
        spark.read.format("mqplug").option("url", cluster.url).option("subscribe", "nowhere").load().count()
    with pytest.raises(PySparkException, match=r'File ".*in <lambda>') as failed:
        spark.range(2).rdd.map(lambda row: 1 // row.id).collect()
    assert "ZeroDivisionError" in str(failed.value)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port on which no process listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_an_unknown_option_is_refused_before_any_query(spark: SparkSession) -> None:
    """A misspelt option fails load(), and the error names the right one."""
    reader = spark.read.format("mqplug").option("url", "kafka://localhost").option("subscribe", "orders")
    with pytest.raises(PySparkException, match="Did you mean 'startingOffsets'"):
        reader.option("startingOffset", "latest").load()


def test_memory_is_refused_when_the_read_is_planned(spark: SparkSession) -> None:
    """The memory backend raises Unsupported, with the reason."""
    frame = spark.read.format("mqplug").option("url", "memory://shared").option("topic", "orders").load()
    with pytest.raises(PySparkException, match=r"Unsupported.*Spark's tasks run in others"):
        frame.collect()


def test_a_password_is_never_shown(spark: SparkSession, silent_port: int) -> None:
    """The error for an unreachable broker does not show the URL's password; nor does the plan."""
    url = f"kafka://me:hunter2@127.0.0.1:{silent_port}"
    frame = spark.read.format("mqplug").option("url", url).option("topic", "orders").load()
    with pytest.raises(PySparkException, match="mqplug") as refused:
        frame.collect()
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in frame._jdf.queryExecution().toString()  # type: ignore[operator]
