"""The methods that Spark calls, called without Spark."""

from __future__ import annotations

import gc
import os
import re
import traceback
from collections.abc import Callable
from functools import partial

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSourceReader, EqualTo, InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType
from reads import reader_of, rows_of

import mqplug
from mqplug import ConfigError, ConnectError, Error, Fenced, SendFailed, Timeout, TopicNotFound
from mqplug_spark import MqplugDataSource

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"  # Spark's variable
READ = {"url": "kafka://localhost:9092", "subscribe": "orders"}
Failing = Callable[..., Callable[[], object]]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Return a function that returns a call of a reader that fails with a new error of this kind."""

    def fail_with(
        kind: Callable[..., Error], fix: str | None = None, cause: Exception | None = None
    ) -> Callable[[], object]:
        def connect(*_: object, **__: object) -> mqplug.Client:
            raise kind("it failed", fix=fix) from cause

        monkeypatch.setattr(mqplug, "connect", connect)
        return reader_of(READ).partitions

    return fail_with


@pytest.mark.parametrize("nothing", [None, InputPartition(None)])
def test_nothing_planned_is_nothing_read(nothing: InputPartition | None) -> None:
    """If no range is planned, Spark passes None or a partition whose value is None: both have no rows."""
    assert rows_of(reader_of(READ), [nothing]) == []


def test_a_reader_takes_filters_and_does_not_define_the_method() -> None:
    """Spark refuses a reader that defines pushFilters while pushdown is off, so it must see the inherited one."""
    reader = reader_of(READ)
    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    sent: DataSourceReader = CloudPickleSerializer().loads(CloudPickleSerializer().dumps(reader))
    given = [EqualTo(("partition",), 1), EqualTo(("value",), b"x")]
    assert list(sent.pushFilters(given)) == given[1:]


def test_making_a_source_checks_nothing() -> None:
    """Spark creates several sources of each kind: only a call for the schema or a reader checks the options."""
    source = MqplugDataSource({"nonsense": "1"})
    with pytest.raises(Error, match="unknown option 'nonsense'"):
        source.schema()


def test_errors_are_cut_short(failing: Failing) -> None:
    """Spark prints the whole chain of an error, so the causes of our error are removed."""
    native = OSError("native words")
    with pytest.raises(ConnectError) as refused:
        failing(ConnectError, cause=native)()
    assert "native words" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    ("kind", "fix", "says"),
    [
        (TopicNotFound, None, "`mqplug create NAME`: Spark creates none"),
        (ConfigError, "Write connect('rocksmq', path='./mq')", r"option\('url', 'kafka://host:9092'\)"),
        (Timeout, None, "Check that the backend is up"),
        (SendFailed, None, "Correct the rows"),
        (Fenced, "Open a new client to take the name back", "set kafka.transaction.timeout.ms"),
        (ConfigError, "Write option('topic', ...)", r"Write option\('topic', ...\)"),
    ],
)
def test_fixes_are_for_spark(failing: Failing, kind: Callable[..., Error], fix: str | None, says: str) -> None:
    """A fix for programs that call mqplug is replaced by one for users of Spark."""
    with pytest.raises(Error, match=says) as refused:
        failing(kind, fix)()
    assert not re.search(r"create=|connect\(|longer timeout|results|new client", str(refused.value))


def test_tables_are_told_of_their_options() -> None:
    """Spark passes no options of a table in its catalog, and the error says how to give them."""
    source = MqplugDataSource({})
    for call in (source.schema, partial(source.writer, StructType([StructField("value", BinaryType())]), False)):
        with pytest.raises(ConfigError, match=r"Spark loses the options of CREATE TABLE.*WITH \(url"):
            call()


def test_tracebacks_are_hidden_as_long_as_an_error_lives(failing: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that hides tracebacks goes with our last error, so other errors keep theirs."""
    monkeypatch.delenv(HIDE_TRACEBACK, raising=False)
    fail = failing(ConnectError)
    errors = []
    for _ in range(2):
        with pytest.raises(ConnectError) as refused:
            fail()
        errors.append(refused)
    del refused
    assert os.environ[HIDE_TRACEBACK] == "1"
    errors.pop()
    gc.collect()
    assert os.environ[HIDE_TRACEBACK] == "1"
    errors.pop()
    gc.collect()
    assert HIDE_TRACEBACK not in os.environ


def test_a_user_who_hides_tracebacks_keeps_them_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that the user has set is kept, even when an earlier error is collected."""
    monkeypatch.delenv(HIDE_TRACEBACK, raising=False)
    with pytest.raises(Error, match="unknown option 'nonsense'") as before:
        MqplugDataSource({"nonsense": "1"}).schema()
    monkeypatch.setenv(HIDE_TRACEBACK, "true")
    with pytest.raises(Error, match="unknown option 'nonsense'"):
        MqplugDataSource({"nonsense": "1"}).schema()
    del before
    gc.collect()
    assert os.environ[HIDE_TRACEBACK] == "true"


def test_a_stream_reader_that_cannot_be_made_says_so_when_it_is_used() -> None:
    """The first call of the reader raises the error, because Spark covers an error of streamReader with its own."""
    source = MqplugDataSource({"url": "kafka://localhost", "topic": "orders", "endingOffsets": "latest"})
    reader = source.streamReader(StructType([StructField("value", BinaryType())]))
    for call in (reader.initialOffset, reader.latestOffset, partial(reader.partitions, {}, {})):
        with pytest.raises(Error, match="stream"):
            call()
