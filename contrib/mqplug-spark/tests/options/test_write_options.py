"""Options of writes: what they do, and the errors for wrong ones before any request to a broker."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from clusters import Cluster, over
from pyspark.sql.types import StructType

from mqplug import ConfigError, Record
from mqplug_spark import MqplugDataSource

SCHEMA = StructType().add("key", "binary").add("value", "binary")
KEYS = [b"%d" % number for number in range(20)]


def check(**given: str) -> None:
    """Plan a batch write with these options."""
    MqplugDataSource({"url": "kafka://localhost:9092", **given}).writer(SCHEMA, overwrite=False)


class FirstTask:
    """The part of Spark's context that a task uses."""

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        """Return the task's number."""
        return 0


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test as a task of Spark."""
    monkeypatch.setattr("pyspark.TaskContext.get", FirstTask)


def write(cluster: Cluster, **options: str) -> None:
    """Write a row for each key, as one task."""
    writer = MqplugDataSource({"url": cluster.url, **options}).writer(SCHEMA, overwrite=False)
    writer.commit([writer.write(iter([pa.record_batch({"key": KEYS, "value": KEYS})]))])


def placed(cluster: Cluster, topic: str) -> list[tuple[int, bytes | None]]:
    """Return the partition and the value of each message."""
    return sorted((message.partition, message.value or b"") for message in cluster.client.read(topic))


@over("rocksmq")
def test_the_partitioner_places_rows(in_task: None, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    """By default murmur2 places a row's key, or the partitioner of the option, whose case is ignored."""
    found = []
    for options in ({}, {"PARTITIONER": "CRC32", "includeHeaders": "true"}):
        topic = make_topic(3)
        write(cluster, TOPIC=topic, **options)
        found.append(placed(cluster, topic))
    for partitioner, rows in zip(("murmur2", "crc32"), found, strict=True):
        topic = make_topic(3)
        with cluster.client.producer(topic, partitioner=partitioner) as out:
            out.send_many([Record(key, key=key) for key in KEYS])
        assert rows == placed(cluster, topic)
    assert found[0] != found[1]


@over("rocksmq")
def test_a_write_is_repeated_unless_it_has_a_number(in_task: None, cluster: Cluster, topic: str) -> None:
    """Without a mark, each call writes the rows again; with one, only the first call with this writer and number."""
    for options, count in (({}, 1), ({}, 2), ({"number": "7"}, 3), ({"number": "7"}, 3), ({"number": "8"}, 4)):
        mark = {"Writer": topic, **options} if options else {}
        write(cluster, topic=topic, **mark)
        assert len(placed(cluster, topic)) == count * len(KEYS)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topik": "orders"}, "unknown option 'topik'.*Did you mean 'topic'"),
        ({"path": "orders"}, "save\\(\\) was given a path"),
        ({"subscribe": "orders"}, "unknown option 'subscribe'"),
        ({"topic": ""}, "the option 'topic' must name one topic, not ''"),
        ({"topic": "orders,audit"}, "the option 'topic' must name one topic, not 'orders,audit'"),
        ({"checkpointLocation": "/c"}, "'checkpointLocation' is an option of streams"),
        ({"queryname": "copy"}, "'queryName' is an option of streams"),
        ({"partitioner": "random"}, "unknown partitioner 'random'.*Choose from murmur2"),
        ({"kafka.partitioner.class": "x.Y"}, "it names a Java class"),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false"),
        ({"writer": "import"}, "'writer' is given without 'number'"),
        ({"number": "1"}, "'number' is given without 'writer'"),
        ({"writer": "", "number": "1"}, "'writer' must be a name"),
        ({"writer": "w" * 201, "number": "1"}, "'writer' must be a name"),
        ({"writer": "import", "number": "-1"}, "'number' must be a whole number"),
        ({"writer": "import", "number": "1.0"}, "'number' must be a whole number"),
        ({"writer": "import", "number": str(2**63)}, "'number' must be a whole number"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], says: str) -> None:
    """An unknown option or a wrong value raises ConfigError, which says what would be right."""
    with pytest.raises(ConfigError, match=says):
        check(**given)


@over("rocksmq")
def test_a_stream_takes_what_spark_hands_down(cluster: Cluster, topic: str) -> None:
    """Spark passes the name of the query and the location of its checkpoint to the sink of a stream."""
    given = {"url": cluster.url, "topic": topic, "queryname": "copy", "checkpointlocation": "/c"}
    MqplugDataSource(given).streamWriter(SCHEMA, overwrite=False)
    with pytest.raises(ConfigError, match=r"start\(\) was given a path"):
        MqplugDataSource({**given, "path": "/data"}).streamWriter(SCHEMA, overwrite=False)


def test_a_stream_has_a_mark_of_its_own() -> None:
    """A streaming write is marked with its query and batch, so it refuses the options that mark a batch write."""
    given = {"url": "kafka://localhost", "topic": "orders", "writer": "import", "number": "1"}
    with pytest.raises(ConfigError, match="foreachBatch"):
        MqplugDataSource(given).streamWriter(SCHEMA, overwrite=False)
