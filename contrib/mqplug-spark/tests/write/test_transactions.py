"""Writes in transactions, over the memory backend."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from clusters import new_name

import mqplug
from mqplug_spark._options.write_options import WriteMark, WriteOptions, parse_write_options
from mqplug_spark._write.exactly_once import send_marked
from mqplug_spark._write.marks import Fingerprint, Mark, marks_of, prepare_marks
from mqplug_spark._write.rows import WrittenRows
from mqplug_spark._write.task import Task, WrittenByTask
from mqplug_spark._write.transactions import send_in_transaction
from mqplug_spark._write.writers import commit_all


@pytest.fixture
def audit(mq: mqplug.Client) -> Iterator[str]:
    """Another topic."""
    mq.create_topic("audit")
    yield "audit"
    mq.delete_topic("audit")


@pytest.fixture
def options(mq: mqplug.Client) -> Iterator[WriteOptions]:
    """Options of a write with its own topic of marks."""
    made = parse_write_options({"url": "memory://orders", "marksTopic": new_name("marks")})
    prepare_marks(mq, made.marks_topic)
    yield made
    mq.delete_topic(made.marks_topic)


def test_a_topic_of_marks_with_too_few_partitions_is_refused(mq: mqplug.Client, audit: str) -> None:
    """Writers share a fixed number of partitions, but a topic that another program created may have fewer."""
    with pytest.raises(mqplug.ConfigError, match=r"'audit', has 1 partitions, but needs 8.*marksTopic"):
        prepare_marks(mq, audit)


def rows(*values: tuple[bytes, str]) -> WrittenRows:
    """Rows with their topics."""
    made = pa.record_batch(
        {"value": pa.array([value for value, _ in values]), "topic": pa.array([topic for _, topic in values])}
    )
    return WrittenRows(iter([made]), 0, None, 1000, lambda _: 2)


def task(number: int = 0, batch: int = 0, execution: str = "first") -> Task:
    """A task of a marked write."""
    return Task(number, WriteMark("import", batch), once=True, execution=execution)


def stored(mq: mqplug.Client, topic: str) -> list[bytes | None]:
    """The values that consumers see."""
    return sorted(message.value for message in mq.read(topic))  # type: ignore[type-var]


def test_rows_of_all_topics_are_one_transaction(mq: mqplug.Client, audit: str) -> None:
    """Without a mark, the rows of a task become visible together or not at all."""
    send_in_transaction(mq, rows((b"1", "orders"), (b"2", audit)), task(), "murmur2")
    assert (stored(mq, "orders"), stored(mq, audit)) == ([b"1"], [b"2"])
    with pytest.raises(mqplug.TopicNotFound):
        send_in_transaction(mq, rows((b"1", "orders"), (b"2", "nowhere")), task(), "murmur2")
    assert stored(mq, "orders") == [b"1"]


def test_a_task_whose_mark_is_there_sends_nothing(mq: mqplug.Client, audit: str, options: WriteOptions) -> None:
    """The rows of a task are stored once for each number, in all of its topics."""
    for batch in (0, 0, 1):
        send_marked(mq, mq, rows((b"%d" % batch, "orders"), (b"%d" % batch, audit)), task(batch=batch), options)
    assert (stored(mq, "orders"), stored(mq, audit)) == ([b"0", b"1"], [b"0", b"1"])


def test_each_task_has_marks_of_its_own(mq: mqplug.Client, options: WriteOptions) -> None:
    """A mark of one task does not keep another task's rows from being stored."""
    for number in (0, 1, 0):
        send_marked(mq, mq, rows((b"%d" % number, "orders")), task(number), options)
    assert stored(mq, "orders") == [b"0", b"1"]


def test_a_task_that_fails_sends_nothing(mq: mqplug.Client, audit: str, options: WriteOptions) -> None:
    """After a row that cannot be sent, no row of its task is stored in any topic, and the task can be repeated."""
    with pytest.raises(mqplug.TopicNotFound):
        send_marked(mq, mq, rows((b"1", "orders"), (b"2", audit), (b"3", "nowhere")), task(), options)
    assert (stored(mq, "orders"), stored(mq, audit)) == ([], [])
    send_marked(mq, mq, rows((b"1", "orders"), (b"2", audit)), task(), options)
    assert (stored(mq, "orders"), stored(mq, audit)) == ([b"1"], [b"2"])


def test_a_task_that_finds_other_rows_under_its_mark_fails(mq: mqplug.Client, options: WriteOptions) -> None:
    """Rows in another order are the same rows; different rows raise an error that says what may have happened."""
    send_marked(mq, mq, rows((b"1", "orders"), (b"2", "orders")), task(), options)
    send_marked(mq, mq, rows((b"2", "orders"), (b"1", "orders")), task(), options)
    with pytest.raises(mqplug.NotCommitted, match="task 0 wrote different rows before: 2 then, 1 now"):
        send_marked(mq, mq, rows((b"1", "orders")), task(execution="second"), options)
    with pytest.raises(mqplug.NotCommitted, match="2 then, 2 now, with different content"):
        send_marked(mq, mq, rows((b"1", "orders"), (b"3", "orders")), task(execution="second"), options)
    assert stored(mq, "orders") == [b"1", b"2"]


def test_a_repeated_write_waits_until_the_tasks_that_had_committed_have_compared(
    mq: mqplug.Client, options: WriteOptions
) -> None:
    """A task that had not committed stores its rows once all others have found theirs unchanged."""
    send_marked(mq, mq, rows((b"1", "orders")), task(1), options)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(send_marked, mq, mq, rows((b"0", "orders")), task(0, execution="second"), options)
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        assert stored(mq, "orders") == [b"1"]
        send_marked(mq, mq, rows((b"1", "orders")), task(1, execution="second"), options)
        waiting.result(20)
    assert stored(mq, "orders") == [b"0", b"1"]


def test_rows_that_are_divided_otherwise_are_refused_before_any_is_written(
    mq: mqplug.Client, options: WriteOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer tasks than before, or as many with different rows, write nothing, whether they had committed or not."""
    monkeypatch.setattr("mqplug_spark._write.exactly_once.START_TIMEOUT_S", 0.5)
    send_marked(mq, mq, rows((b"3", "orders")), task(3), options)
    with pytest.raises(mqplug.NotCommitted, match="task 3 wrote rows before, but does not begin now"):
        send_marked(mq, mq, rows((b"2", "orders"), (b"3", "orders")), task(1, execution="second"), options)
    with pytest.raises(mqplug.NotCommitted, match="task 3 wrote different rows before"):
        send_marked(mq, mq, rows((b"4", "orders")), task(3, execution="second"), options)
    with pytest.raises(mqplug.NotCommitted, match="another task wrote different rows before"):
        send_marked(mq, mq, rows((b"0", "orders")), task(0, execution="second"), options)
    assert stored(mq, "orders") == [b"3"]


def test_a_number_that_was_never_written_below_a_written_one_is_refused(
    mq: mqplug.Client, options: WriteOptions
) -> None:
    """The error names both numbers and says that nothing was written; the log keeps only the later rows."""
    send_marked(mq, mq, rows((b"new", "orders")), task(0, batch=5), options)
    with pytest.raises(mqplug.NotCommitted, match=r"later number 5 of 'import' .* number 3 was not") as caught:
        send_marked(mq, mq, rows((b"old", "orders")), task(1, batch=3), options)
    assert "above 5" in (caught.value.fix or "")
    assert stored(mq, "orders") == [b"new"]


def test_what_the_driver_has_committed_is_not_written_again_however_it_is_divided(
    mq: mqplug.Client, options: WriteOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once all tasks have committed, any tasks under the same or a lower number send nothing."""
    monkeypatch.setattr("mqplug_spark._write.writers.ask", lambda _, question: question(mq))
    send_marked(mq, mq, rows((b"0", "orders")), task(0, 5), options)
    commit_all(options, [WrittenByTask(1, WriteMark("import", 5), execution="first"), None])
    for batch in (5, 4):
        send_marked(mq, mq, rows((b"0", "orders"), (b"1", "orders")), task(0, batch, "second"), options)
        send_marked(mq, mq, rows((b"2", "orders")), task(1, batch, "second"), options)
    assert stored(mq, "orders") == [b"0"]
    send_marked(mq, mq, rows((b"6", "orders")), task(0, 6, "third"), options)
    assert stored(mq, "orders") == [b"0", b"6"]


def test_an_older_run_that_commits_meanwhile_is_told(
    mq: mqplug.Client, options: WriteOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's commit fails if another run's task has committed unnoticed, because its rows may be stored twice."""
    monkeypatch.setattr("mqplug_spark._write.writers.ask", lambda _, question: question(mq))
    send_marked(mq, mq, rows((b"0", "orders")), task(0, execution="second"), options)
    late = marks_of(options, "import").rows_record(1, Mark(0, "first", Fingerprint(1, 1)))
    with mq.producer() as out:
        out.send(**late)
    with pytest.raises(mqplug.NotCommitted, match=r"task 1 of an earlier run of number 0 .* may be stored twice"):
        commit_all(options, [WrittenByTask(1, WriteMark("import", 0), execution="second")])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"value": [b"1"], "key": [b"a"]}, {"value": [b"1"], "key": [b"b"]}),
        ({"value": [None]}, {"value": [b""]}),
        ({"value": [b"1"], "key": [None]}, {"value": [b"1"], "key": [b""]}),
        ({"value": [b"1"], "key": [b"2"]}, {"value": [b""], "key": [b"21"]}),
        ({"value": [b"1"], "partition": [0]}, {"value": [b"1"], "partition": [1]}),
        ({"value": [b"1"], "partition": [0]}, {"value": [b"1"], "partition": [None]}),
        ({"value": [b"1"], "timestamp": [1]}, {"value": [b"1"], "timestamp": [2]}),
        ({"value": [b"1"], "headers": [[("a", b"")]]}, {"value": [b"1"], "headers": [[("a", None)]]}),
        ({"value": [b"1"], "headers": [None]}, {"value": [b"1"], "headers": [[("a", None)]]}),
    ],
)
def test_all_that_is_sent_makes_rows_others(one: dict[str, list[object]], other: dict[str, list[object]]) -> None:
    """Rows that differ in any column or in the topic have different fingerprints."""
    kinds = {
        "value": pa.binary(), "key": pa.binary(), "partition": pa.int32(), "timestamp": pa.timestamp("us", "UTC"),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }  # fmt: skip

    def fingerprint(columns: dict[str, list[object]], topic: str = "orders") -> Fingerprint:
        made = Fingerprint()
        arrays = {name: _array(name, column, kinds[name]) for name, column in columns.items()}
        made.add(topic, pa.record_batch(arrays))
        return made

    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(one) != fingerprint(one, "audit")


def test_a_fingerprint_ignores_how_rows_are_ordered_and_batched() -> None:
    """The same rows in another order, in one batch or many, have the same fingerprint; one changed row another."""

    def fingerprint(values: list[bytes], size: int) -> Fingerprint:
        made = Fingerprint()
        for batch in pa.table({"value": pa.array(values)}).to_batches(size):
            made.add("orders", batch)
        return made

    values = [b"%d" % number for number in range(2000)]
    whole = fingerprint(values, 2000)
    assert whole == fingerprint(values[::-1], 70)
    assert whole.rows == 2000
    assert whole != fingerprint([*values[:-1], b"other"], 2000)


def _array(name: str, column: list[object], kind: pa.DataType) -> pa.Array:
    if name == "headers":
        column = [each and [dict(zip(("key", "value"), pair, strict=True)) for pair in each] for each in column]  # type: ignore[attr-defined]
    return pa.array(column, kind)


def test_many_rows_are_flushed(mq: mqplug.Client, options: WriteOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction with more rows than fit in memory is still one transaction."""
    monkeypatch.setattr("mqplug_spark._write.transactions.FLUSH_ROWS", 2)
    many = WrittenRows(iter([pa.record_batch({"value": pa.array([b"x"])})] * 5), 0, "orders", 1000, lambda _: 2)
    send_marked(mq, mq, many, task(), options)
    assert stored(mq, "orders") == [b"x"] * 5
