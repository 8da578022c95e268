"""Writing on Spark, whose tasks run in separate processes."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clusters import Cluster, over, send
from pyspark.errors import PySparkException, StreamingQueryException
from queries import finished

import mqplug

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

pytestmark = pytest.mark.timeout(240)  # the first test that needs Spark or Kafka starts it

Writing = Callable[["DataFrame"], "DataFrameWriter"]


@pytest.fixture
def writing(cluster: Cluster) -> Writing:
    """A function that prepares a write of a frame, which needs only a topic."""
    return lambda frame: frame.write.format("mqplug").mode("append").option("url", cluster.url)


def stored(cluster: Cluster, topic: str) -> Counter[str]:
    """How often consumers see each value."""
    return Counter((message.value or b"").decode() for message in cluster.client.read(topic))


def numbers(spark: SparkSession, amount: int, tasks: int = 2) -> DataFrame:
    """The numbers from 0, as text."""
    return spark.range(0, amount, 1, tasks).selectExpr("cast(id as string) as value")


@over("rocksmq", "kafka", "pulsar")
def test_every_column_is_written(
    spark: SparkSession, cluster: Cluster, writing: Writing, make_topic: Callable[..., str]
) -> None:
    """Each message has the value, key, headers, timestamp, topic and partition of its row."""
    one, two = make_topic(), make_topic()
    moment = datetime(2024, 5, 6, 7, 8, 9, 123_000, UTC)
    rows: list[tuple[Any, ...]] = [
        (b"v", b"k", one, 1, moment, [("a", b"1"), ("b", b"\xff"), ("a", b"")]),
        (None, b"\x00\xff", two, 0, moment, None),
        (b"", None, two, 1, moment, []),
        (b"by key", b"customer-17", one, None, moment, None),
    ]
    schema = (
        "value binary, key binary, topic string, partition int, timestamp timestamp,"
        "headers array<struct<key:string,value:binary>>"
    )
    writing(spark.createDataFrame(rows, schema)).save()
    written = {
        (message.value, message.key, message.topic, message.partition, message.timestamp, tuple(message.headers))
        for topic in (one, two)
        for message in cluster.client.read(topic)
    }
    with cluster.client.producer(one) as out:
        by_key = out.send(b"", key=b"customer-17").log.partition
    assert written == {
        (value, key, topic, by_key if partition is None else partition, moment, tuple(headers or ()))
        for value, key, topic, partition, moment, headers in rows
    }


def test_many_rows_of_many_tasks(spark: SparkSession, cluster: Cluster, writing: Writing, topic: str) -> None:
    """No row is lost or repeated, and the rows of a task keep their order in a partition."""
    frame = numbers(spark, 60_000, tasks=3).selectExpr("value", "'k' as key", "timestamp_millis(5) as timestamp")
    writing(frame).option("topic", topic).save()
    seen = [int(message.value or b"") for message in cluster.client.read(topic)]
    assert sorted(seen) == list(range(60_000))
    for task in range(3):
        mine = [number for number in seen if number // 20_000 == task]
        assert mine == sorted(mine)


@over("kafka")
def test_what_was_read_is_written_as_it_is(
    spark: SparkSession, cluster: Cluster, writing: Writing, topic: str, make_topic: Callable[..., str]
) -> None:
    """A frame can be written as it was read to another topic, with key, value, headers, timestamp and partition."""
    copy = make_topic()
    with cluster.client.producer(topic) as out:
        for number in range(10):
            out.send(b"%d" % number, key=b"k", headers=[("h", b"1")], partition=number % 2, timestamp=1_700_000_000_000)
    read = spark.read.format("mqplug").option("url", cluster.url).option("includeHeaders", "true")
    writing(read.option("subscribe", topic).load()).option("topic", copy).save()

    def content(name: str) -> list[tuple[Any, ...]]:
        return sorted(
            (each.partition, each.value, each.key, tuple(each.headers), each.timestamp)
            for each in cluster.client.read(name)
        )

    assert content(copy) == content(topic)


def test_a_task_that_fails(spark: SparkSession, cluster: Cluster, writing: Writing, topic: str) -> None:
    """A task that fails in the middle leaves nothing if it stages or has a transaction; stages appear in one step."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    try:
        value = "if(id = 9000, raise_error('the rows cannot be computed'), cast(id as string)) as value"
        frame = spark.range(0, 10_000, 1, 2).selectExpr(value)
        with pytest.raises(PySparkException, match="the rows cannot be computed"):
            writing(frame).option("topic", topic).save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    seen = stored(cluster, topic)
    able = cluster.client.capabilities
    if able.staged_ingest:
        assert not seen
    elif able.transactions:
        assert not [value for value in seen if int(value) >= 5_000]


@over("kafka")
@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("'hunter2' as value, 7 as partition, '{topic}' as topic", "'partition' of row 0 of task 0 is 7"),
        ("'x' as value, 'nowhere' as topic", "TopicNotFound.*nowhere"),
        pytest.param(
            "repeat('x', 30000000) as value, '{topic}' as topic",
            "MessageTooLarge.*'value' of row 0",
            marks=pytest.mark.night,
        ),
        ("1 as value, '{topic}' as topic", "'value' must be binary or string, not int"),
    ],
)
def test_a_bad_row_is_named(
    spark: SparkSession, cluster: Cluster, writing: Writing, topic: str, columns: str, says: str
) -> None:
    """One error says what is wrong with a row or a column, without its content, and nothing is written."""
    frame = spark.sql(f"select {columns.format(topic=topic)}")
    with pytest.raises(PySparkException, match=says) as refused:
        writing(frame).save()
    assert "hunter2" not in str(refused.value)
    assert not stored(cluster, topic)


@over("rocksmq")
def test_modes_other_than_append_are_refused(
    spark: SparkSession, cluster: Cluster, writing: Writing, topic: str
) -> None:
    """A topic is never overwritten, and Spark itself refuses its default mode."""
    frame = numbers(spark, 1)
    with pytest.raises(PySparkException, match="a topic cannot be overwritten, only appended to"):
        writing(frame).mode("overwrite").option("topic", topic).save()
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        writing(frame).mode("error").option("topic", topic).save()


def test_writer_and_number_make_foreach_batch_idempotent(
    spark: SparkSession, cluster: Cluster, writing: Writing, topic: str
) -> None:
    """A write repeated under its number, by any number of tasks, stores nothing more; Pulsar refuses it."""

    def write(batch: DataFrame, number: int) -> None:
        writing(batch).option("topic", topic).option("writer", topic).option("number", str(number)).save()

    if not cluster.client.capabilities.transactions:
        with pytest.raises(PySparkException, match="cannot store rows exactly once, as 'writer' and 'number' require"):
            write(numbers(spark, 10), 0)
        return
    for number, tasks in ((0, 2), (0, 2), (0, 3), (1, 2), (1, 1)):
        write(numbers(spark, 100, tasks), number)
    assert stored(cluster, topic) == Counter({str(number): 2 for number in range(100)})


@pytest.fixture
def queue(spark: SparkSession, tmp_path: Path) -> Path:
    """A folder with three files of 50 numbers each, which a stream reads one by one, the oldest first."""
    folder = tmp_path / "queue"
    folder.mkdir()
    now = time.time()
    for number in range(3):
        file = folder / f"{number}.txt"
        file.write_text("".join(f"{number * 50 + line}\n" for line in range(50)))
        os.utime(file, (now, now - 60 + number))
    return folder


def run(spark: SparkSession, cluster: Cluster, topic: str, queue: Path) -> None:
    """Run a query until it has written everything in the queue."""
    frame = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(queue))
    sink = frame.writeStream.format("mqplug").option("url", cluster.url).option("topic", topic)
    finished(sink.option("checkpointLocation", str(queue.parent / "checkpoint")).trigger(availableNow=True).start)


def uncommit(queue: Path, batch: int) -> None:
    """Make Spark repeat a batch: remove its commit, as if Spark had been killed just before."""
    commits = queue.parent / "checkpoint" / "commits"
    for name in (str(batch), f".{batch}.crc"):
        (commits / name).unlink(missing_ok=True)


@over("rocksmq", at_night=["kafka", "pulsar"])
def test_a_batch_that_is_repeated(spark: SparkSession, cluster: Cluster, topic: str, queue: Path) -> None:
    """A stream that restarts with a batch that was already written stores nothing twice, except on Pulsar."""
    once = Counter({str(number): 1 for number in range(150)})
    run(spark, cluster, topic, queue)
    assert stored(cluster, topic) == once
    uncommit(queue, 2)
    run(spark, cluster, topic, queue)
    repeated = Counter() if cluster.client.capabilities.transactions else Counter(map(str, range(100, 150)))
    assert stored(cluster, topic) == once + repeated
    (queue / "3.txt").write_text("last\n")
    run(spark, cluster, topic, queue)
    assert stored(cluster, topic) == once + repeated + Counter(["last"])


@over("kafka")
def test_a_batch_of_which_one_task_had_committed(
    spark: SparkSession, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """If the same tasks repeat the batch, it is stored once; if its rows are divided differently, nothing is stored."""
    source, target = make_topic(1), make_topic()
    send(cluster, source, 1_000)

    def run(tasks: int, change: Callable[..., object] | None = None) -> None:
        reader = spark.readStream.format("mqplug").option("url", cluster.url).option("subscribe", source)
        frame = reader.option("startingOffsets", "earliest").option("minPartitions", tasks).load().select("value")
        frame = frame if change is None else frame.mapInArrow(change, "value binary")  # type: ignore[arg-type]
        sink = frame.writeStream.format("mqplug").option("url", cluster.url).option("topic", target)
        finished(sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start)

    with pytest.raises(StreamingQueryException, match="the first task fails"):
        run(2, first_task_failing(cluster.url, target))
    before = stored(cluster, target)
    assert before == Counter(map(str, range(500, 1_000)))
    with pytest.raises(StreamingQueryException, match="are divided differently now"):
        run(3)
    assert stored(cluster, target) == before
    run(2)
    assert stored(cluster, target) == Counter(map(str, range(1_000)))


def first_task_failing(url: str, target: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function on rows that fails in the first of two tasks after the other has committed."""

    def change(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if b"0" in batch["value"].to_pylist():
                with mqplug.connect(url) as client:
                    end = time.monotonic() + 60
                    while all(mark.readable == mark.low for mark in client.watermarks(target).values()):
                        assert time.monotonic() < end
                        time.sleep(0.1)
                raise RuntimeError("the first task fails")
            yield batch

    return change


@over("rocksmq")
def test_options_of_a_batch_write_are_refused_on_a_stream(
    spark: SparkSession, cluster: Cluster, topic: str, queue: Path
) -> None:
    """A stream is marked with its query, and a topic is never overwritten."""
    frame = spark.readStream.format("text").load(str(queue))
    sink = frame.writeStream.format("mqplug").option("url", cluster.url).option("topic", topic)
    sink = sink.option("checkpointLocation", str(queue.parent / "checkpoint")).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="foreachBatch"):
        sink.option("writer", "mine").option("number", "1").start().awaitTermination()


def test_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The examples of the page on writing do what they say."""
    page = (Path(__file__).parents[2] / "docs" / "writing.md").read_text()
    url = f"rocksmq://{tmp_path}"
    with mqplug.connect(url) as client:
        client.create_topic("orders", partitions=2)
        names = {"spark": spark}
        for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            exec(example.replace("kafka://broker:9092", url), names)
        seen = stored(Cluster(url, client), "orders")
    assert seen.pop("2 pears") == 1
    assert seen.pop("3 apples") == seen.pop("1 melon") == 2
    assert set(seen.values()) == {2}
    assert len(seen) % 10 == 0


def test_the_readme_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The first steps create a topic, write to it and read it, without any preparation."""
    page = (Path(__file__).parents[2] / "README.md").read_text()
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(example.replace("rocksmq:///tmp/first-steps", f"rocksmq://{tmp_path}"), names)
    with mqplug.connect(f"rocksmq://{tmp_path}") as client:
        assert stored(Cluster(f"rocksmq://{tmp_path}", client), "orders") == Counter({"3 apples": 2, "1 melon": 2})
