"""Writes to a RocksMQ store, called as Spark calls them: tasks stage, and the driver's commit ingests."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from spark_options import drop_client_of

import mqplug
from mqplug import InvalidRecord
from mqplug_spark import MqplugDataSource

VALUES = StructType().add("value", "binary")
Message = WriterCommitMessage | None


class FakeContext:
    """The part of Spark's context that a task uses."""

    def __init__(self, number: int, query: str | None = None, batch: int | None = None) -> None:
        self._number = number
        self._properties = {
            "sql.streaming.queryId": query,
            "streaming.sql.batchId": None if batch is None else str(batch),
        }

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        """The task's number."""
        return self._number

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        """A property of the query."""
        return self._properties[name]


Sources = Callable[..., MqplugDataSource]
Enter = Callable[[FakeContext], None]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[mqplug.Client]:
    """A client of a store with the topic ``orders``."""
    url = f"rocksmq://{tmp_path}"
    with mqplug.connect(url) as client:
        client.create_topic("orders", partitions=2)
        yield client
        drop_client_of(url)


@pytest.fixture
def source(store: mqplug.Client, tmp_path: Path) -> Sources:
    """Return a function that creates a source for the store, with options."""
    return lambda **options: MqplugDataSource({"url": f"rocksmq://{tmp_path}", "topic": "orders", **options})


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Return a function that makes the rest of the test run as a task."""
    return lambda context: monkeypatch.setattr("pyspark.TaskContext.get", lambda: context)


def batches(*values: bytes) -> Iterator[pa.RecordBatch]:
    """The rows of a task, one in each batch."""
    return iter([pa.record_batch({"value": pa.array([value], pa.binary())}) for value in values])


def stored(store: mqplug.Client) -> list[bytes | None]:
    """The values that consumers see."""
    return sorted(message.value for message in store.read("orders"))  # type: ignore[type-var]


def staged_files(tmp_path: Path) -> int:
    """The number of staged files."""
    return len(list((tmp_path / "staging").glob("*")))


def test_a_batch_appears_as_a_whole(store: mqplug.Client, source: Sources, in_task: Enter) -> None:
    """No row is visible before the commit; messages can be pickled; a second write adds to the first."""
    for expected in (1, 2):
        writer = source().writer(VALUES, overwrite=False)
        messages: list[Message] = []
        for number in range(3):
            in_task(FakeContext(number))
            copy = pickle.loads(pickle.dumps(writer))
            messages.append(pickle.loads(pickle.dumps(copy.write(batches(b"%d" % number, b"x")))))
        assert len(stored(store)) == 6 * (expected - 1)
        writer.commit(messages)
        assert stored(store) == sorted([b"0", b"1", b"2", b"x", b"x", b"x"] * expected)


def test_an_abort_leaves_nothing(
    store: mqplug.Client,
    source: Callable[..., MqplugDataSource],
    in_task: Callable[[FakeContext], None],
    tmp_path: Path,
) -> None:
    """An abort removes staged rows; a failed task has removed its own, and sent no message."""
    writer = source().writer(VALUES, overwrite=False)
    in_task(FakeContext(0))
    message = writer.write(batches(b"1"))
    assert staged_files(tmp_path) == 1
    writer.abort([message, None])
    assert staged_files(tmp_path) == 0
    writer.abort([None])
    assert stored(store) == []


def test_a_task_that_fails_leaves_nothing(source: Sources, in_task: Enter, tmp_path: Path) -> None:
    """Rows that were staged before a bad row, or before an error in the input, are removed."""
    in_task(FakeContext(0))
    large = pa.record_batch(
        {"value": pa.array([b"x" * 1000] * 40_000, pa.binary()), "partition": pa.array([0] * 40_000, pa.int32())}
    )
    wrong = pa.record_batch({"value": pa.array([b"x"], pa.binary()), "partition": pa.array([9], pa.int32())})
    schema = StructType().add("value", "binary").add("partition", "integer")
    writer = source().writer(schema, overwrite=False)
    with pytest.raises(InvalidRecord, match="'partition' of row 40000 of task 0 is 9"):
        writer.write(iter([large, wrong]))

    def failing() -> Iterator[pa.RecordBatch]:
        yield large
        raise OSError("the rows cannot be computed")

    with pytest.raises(OSError, match="cannot be computed"):
        writer.write(failing())
    assert staged_files(tmp_path) == 0


def test_no_rows_are_no_error(store: mqplug.Client, source: Sources, in_task: Enter) -> None:
    """Tasks without rows, and a write without tasks, commit nothing."""
    writer = source().writer(VALUES, overwrite=False)
    in_task(FakeContext(0))
    writer.commit([writer.write(iter(()))])
    writer.commit([])
    assert stored(store) == []


def test_writer_and_number_make_a_write_once(
    store: mqplug.Client,
    source: Callable[..., MqplugDataSource],
    in_task: Callable[[FakeContext], None],
    tmp_path: Path,
) -> None:
    """A write repeated under its number adds nothing and leaves no files."""
    for number, value in (("1", b"1"), ("1", b"again"), ("2", b"2")):
        writer = source(writer="import", number=number).writer(VALUES, overwrite=False)
        in_task(FakeContext(0))
        writer.commit([writer.write(batches(value))])
    assert stored(store) == [b"1", b"2"]
    assert staged_files(tmp_path) == 0


def test_a_stream_into_a_missing_topic_is_refused_before_its_tasks(store: mqplug.Client, source: Sources) -> None:
    """The writer of a stream checks its topic like that of a batch, but only once."""
    with pytest.raises(mqplug.TopicNotFound, match="nowhere"):
        source(topic="nowhere").streamWriter(VALUES, overwrite=False)
    store.create_topic("nowhere")
    source(topic="nowhere").streamWriter(VALUES, overwrite=False)
    store.delete_topic("nowhere")
    source(topic="nowhere").streamWriter(VALUES, overwrite=False)


def test_a_batch_of_a_stream_is_stored_once(store: mqplug.Client, source: Sources, in_task: Enter) -> None:
    """A batch that Spark repeats is stored once, whichever object commits it; each query has its own numbers."""
    for query, batch in (("one", 0), ("one", 0), ("one", 1), ("two", 0), ("one", 1)):
        in_task(FakeContext(0, query, batch))
        message = source().streamWriter(VALUES, overwrite=False).write(batches(f"{query} {batch}".encode()))
        source().streamWriter(VALUES, overwrite=False).commit([message], batch)
    assert stored(store) == [b"one 0", b"one 1", b"two 0"]


def test_an_aborted_batch_of_a_stream_is_written_again(store: mqplug.Client, source: Sources, in_task: Enter) -> None:
    """An abort does not use up the number of its batch."""
    writer = source().streamWriter(VALUES, overwrite=False)
    in_task(FakeContext(0, "one", 5))
    writer.abort([writer.write(batches(b"aborted")), None], 5)
    writer.commit([writer.write(batches(b"5"))], 5)
    assert stored(store) == [b"5"]


def test_many_topics_in_one_task(
    store: mqplug.Client,
    source: Callable[..., MqplugDataSource],
    in_task: Callable[[FakeContext], None],
    tmp_path: Path,
) -> None:
    """Each topic gets its rows in order, although few stages are open at once; one commit makes all topics visible."""
    topics = [f"topic-{number}" for number in range(20)]
    for topic in topics:
        store.create_topic(topic)
    writer = MqplugDataSource({"url": f"rocksmq://{tmp_path}"}).writer(
        StructType().add("value", "binary").add("topic", "string"), overwrite=False
    )
    in_task(FakeContext(0))
    mixed = pa.record_batch({"value": pa.array([b"%d" % (n // 20) for n in range(60)]), "topic": topics * 3})
    writer.commit([writer.write(iter([mixed, mixed]))])
    for topic in topics:
        assert [message.value for message in store.read(topic)] == [b"0", b"1", b"2"] * 2
