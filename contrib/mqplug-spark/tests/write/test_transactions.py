"""Writes in transactions, over the memory backend."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import mqplug
from mqplug_spark._options.write_options import WriteMark
from mqplug_spark._rows.written_rows import WrittenRows
from mqplug_spark._write.fingerprint import Fingerprint
from mqplug_spark._write.marked_transactions import send_in_transaction, send_marked
from mqplug_spark._write.task import Task


@pytest.fixture
def audit(mq: mqplug.Client) -> Iterator[str]:
    """One more topic."""
    mq.create_topic("audit")
    yield "audit"
    mq.delete_topic("audit")


def rows(*values: tuple[bytes, str]) -> WrittenRows:
    """Rows with their topics."""
    made = pa.record_batch(
        {"value": pa.array([value for value, _ in values]), "topic": pa.array([topic for _, topic in values])}
    )
    return WrittenRows(iter([made]), 0, None, 1000, lambda _: 2)


def task(number: int = 0, batch: int = 0) -> Task:
    """A task of a marked write."""
    return Task(number, WriteMark("import", batch), once=True)


def stored(mq: mqplug.Client, topic: str) -> list[bytes | None]:
    """What readers see."""
    return sorted(message.value for message in mq.read(topic))  # type: ignore[type-var]


def test_rows_of_all_topics_are_one_transaction(mq: mqplug.Client, audit: str) -> None:
    """Without a mark, the rows of a task become visible together, or not at all."""
    send_in_transaction(mq, rows((b"1", "orders"), (b"2", audit)), task(), "murmur2")
    assert (stored(mq, "orders"), stored(mq, audit)) == ([b"1"], [b"2"])
    with pytest.raises(mqplug.TopicNotFound):
        send_in_transaction(mq, rows((b"1", "orders"), (b"2", "nowhere")), task(), "murmur2")
    assert stored(mq, "orders") == [b"1"]


def test_a_task_whose_mark_is_there_sends_nothing(mq: mqplug.Client, audit: str) -> None:
    """The rows of a task are stored once for each number, in each topic."""
    for batch in (0, 0, 1):
        send_marked(mq, rows((b"%d" % batch, "orders"), (b"%d" % batch, audit)), task(batch=batch), "murmur2")
    assert (stored(mq, "orders"), stored(mq, audit)) == ([b"0", b"1"], [b"0", b"1"])


def test_each_task_has_marks_of_its_own(mq: mqplug.Client) -> None:
    """Another task's rows are stored, too."""
    for number in (0, 1, 0):
        send_marked(mq, rows((b"%d" % number, "orders")), task(number), "murmur2")
    assert stored(mq, "orders") == [b"0", b"1"]


def test_a_task_that_fails_sends_nothing(mq: mqplug.Client, audit: str) -> None:
    """A row that cannot be sent leaves nothing of its task, in any topic, and the task can be repeated."""
    with pytest.raises(mqplug.TopicNotFound):
        send_marked(mq, rows((b"1", "orders"), (b"2", audit), (b"3", "nowhere")), task(), "murmur2")
    assert (stored(mq, "orders"), stored(mq, audit)) == ([], [])
    send_marked(mq, rows((b"1", "orders"), (b"2", audit)), task(), "murmur2")
    assert (stored(mq, "orders"), stored(mq, audit)) == ([b"1"], [b"2"])


def test_a_task_that_finds_other_rows_under_its_mark_fails(mq: mqplug.Client) -> None:
    """Rows in another order are the same rows; others are an error that says what may have happened."""
    send_marked(mq, rows((b"1", "orders"), (b"2", "orders")), task(), "murmur2")
    send_marked(mq, rows((b"2", "orders"), (b"1", "orders")), task(), "murmur2")
    with pytest.raises(mqplug.NotCommitted, match=r"task 0 wrote other rows to 'orders' .*: 2 then, 1 now"):
        send_marked(mq, rows((b"1", "orders")), task(), "murmur2")
    with pytest.raises(mqplug.NotCommitted, match="2 then, 2 now, with other content"):
        send_marked(mq, rows((b"1", "orders"), (b"3", "orders")), task(), "murmur2")
    assert stored(mq, "orders") == [b"1", b"2"]


def test_keys_count() -> None:
    """The same values with other keys are other rows."""
    one, other = Fingerprint(0), Fingerprint(0)
    one.add(pa.record_batch({"value": pa.array([b"1", None]), "key": pa.array([b"a", None], pa.binary())}))
    other.add(pa.record_batch({"value": pa.array([b"1", None]), "key": pa.array([b"b", None], pa.binary())}))
    assert one != other
    assert Fingerprint.parse(str(one)) == one
    assert Fingerprint.parse("of another program") is None


def test_many_rows_are_flushed(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step with more rows than are kept in memory is still one."""
    monkeypatch.setattr("mqplug_spark._write.task_steps.FLUSH_ROWS", 2)
    many = WrittenRows(iter([pa.record_batch({"value": pa.array([b"x"])})] * 5), 0, "orders", 1000, lambda _: 2)
    send_marked(mq, many, task(), "murmur2")
    assert stored(mq, "orders") == [b"x"] * 5
