"""Streaming queries: one without Spark, which calls a reader as Spark does, and one on Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType
from waiting import wait_until

from mqplug_spark import MqplugDataSource

HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
if HAS_LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

needs_limits = pytest.mark.skipif(not HAS_LIMITS, reason="this PySpark has no limits of batches")

SCHEMA = StructType(
    [StructField("topic", StringType()), StructField("partition", IntegerType()), StructField("value", BinaryType())]
)

Row = tuple[str, int, int]  # topic, partition, and the number that is the value


@attrs.define
class Query:
    """Calls a reader in the same order as Spark. ``planned`` and ``done`` are the content of its checkpoint."""

    options: Mapping[str, str]
    planned: list[str] = attrs.field(factory=list)
    done: int = 0
    _reader: Any = None
    _limit: ReadLimit | None = None
    _first: str | None = None

    def start(self, *, available_now: bool = False) -> Query:
        """Begin a run, as a new process does. A batch that was planned but not done is read first."""
        self._reader = self._new_reader()
        self._limit = self._reader.getDefaultReadLimit()
        self._first = None
        if available_now:
            self._reader.prepareForTriggerAvailableNow()
        return self

    def batch(self, *, once: bool = False, fail: bool = False) -> list[Row] | None:
        """Run the next trigger. Return its rows, or None if there is no batch. With ``fail`` the batch is not done."""
        reader = self._reader
        assert reader is not None
        if self.done == len(self.planned):
            start = self.planned[-1] if self.planned else self._initial()
            end = _json(reader.latestOffset(json.loads(start), ReadAllAvailable() if once else self._limit))
            reader.reportLatestOffset()
            if end == start:
                return None
            self.planned.append(end)
            if len(self.planned) > 1:
                reader.commit(json.loads(start))
        return self._run(fail)

    def to_the_end(self) -> list[list[Row]]:
        """Run triggers until no batch is left."""
        batches = []
        while (rows := self.batch()) is not None:
            batches.append(rows)
        return batches

    def _new_reader(self) -> Any:
        return MqplugDataSource(dict(self.options)).streamReader(SCHEMA)

    def _initial(self) -> str:
        assert self._reader is not None
        found = _json(self._reader.initialOffset())
        assert self._first in {None, found}, "Spark asks several times, and goes by the last answer"
        self._first = found
        return found

    def _run(self, fail: bool) -> list[Row]:
        assert self._reader is not None
        start = self.planned[-2] if len(self.planned) > 1 else self._first or self._initial()
        task = pickle.loads(pickle.dumps(self._new_reader()))
        ranges = self._reader.partitions(json.loads(start), json.loads(self.planned[-1]))
        ranges = pickle.loads(pickle.dumps(ranges))
        rows = [row for each in ranges for batch in task.read(each) for row in rows_of(batch)]
        self.done += not fail
        return rows


def _json(offset: Any) -> str:
    return json.dumps(offset)


def rows_of(batch: Any) -> list[Row]:
    """Return the rows of a batch."""
    return [
        (topic, partition, int(value))
        for topic, partition, value in zip(
            batch["topic"].to_pylist(), batch["partition"].to_pylist(), batch["value"].to_pylist(), strict=True
        )
    ]


def read_all(options: dict[str, str]) -> list[Row]:
    """Return all rows of a batch read, whose tasks run here one after the other."""
    reader = MqplugDataSource(options).reader(SCHEMA)
    return [row for planned in reader.partitions() for batch in reader.read(planned) for row in rows_of(batch)]


def numbers(rows: list[Row] | None, partition: int = 0) -> list[int]:
    """Return the numbers of one partition, in order."""
    return [number for _, found, number in rows or [] if found == partition]


def started(begin: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Return a query that runs or has ended. Restart it if Spark's own start-up timed out.

    Spark allows the Python process of a source ten seconds to connect back, before any of our code is imported; on a
    busy machine that is not enough.
    """
    while True:
        query = begin()
        wait_until(lambda: not query.isActive or query.lastProgress is not None or _waits(query), 120)  # noqa: B023
        if query.isActive or "failed to connect back" not in str(query.exception()):
            return query


def _waits(query: StreamingQuery) -> bool:
    return "Waiting for" in query.status["message"]


def finished(begin: Callable[[], StreamingQuery]) -> None:
    """Run a query to its end. Raise its error."""
    query = started(begin)
    wait_until(lambda: not query.isActive, 120)
    if (error := query.exception()) is not None:
        raise error
