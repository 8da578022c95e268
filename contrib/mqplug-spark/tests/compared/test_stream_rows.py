"""Streaming reads of Kafka, compared row by row with spark-sql-kafka."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from peers import NOON, TOPICS, in_order, points
from queries import started
from waiting import wait_until

import mqplug

if TYPE_CHECKING:
    from peers import Peer
    from pyspark.sql import DataFrame, Row

pytestmark = pytest.mark.timeout(600)  # the first test that needs Spark or Kafka starts it

_numbers = count()


@pytest.fixture
def table(peer: Peer) -> Iterator[Any]:
    """Return a function that streams all messages into a table. It returns the rows, and the size of each batch."""
    made = []

    def fill(stream: DataFrame, checkpoint: Path) -> tuple[list[Row], list[int]]:
        made.append(name := f"streamed_{next(_numbers)}")
        writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query = started(lambda: writer.toTable(name))
        wait_until(lambda: not query.isActive, 300)
        assert query.exception() is None
        return in_order(peer.spark.table(name)), [each.numInputRows for each in query.recentProgress]

    yield fill
    for name in made:
        peer.spark.sql(f"DROP TABLE IF EXISTS {name}")


STARTS = {
    "offsets": {
        "subscribe": "peer-plain",
        "startingOffsets": points("peer-plain", 3, -2, -1),
        "maxOffsetsPerTrigger": "7",
    },
}
AT_NIGHT = {
    "everything": {"subscribe": ",".join(TOPICS), "startingOffsets": "earliest"},
    "times": {
        "subscribe": "peer-plain,peer-trimmed",
        "startingTimestamp": str(NOON + 4),
        "startingOffsetsByTimestampStrategy": "latest",
        "minPartitions": "6",
    },
}


@pytest.mark.parametrize(
    "options",
    [
        *(pytest.param(options, id=name) for name, options in STARTS.items()),
        *(pytest.param(options, id=name, marks=pytest.mark.night) for name, options in AT_NIGHT.items()),
    ],
)
def test_a_stream_has_the_rows_of_spark_sql_kafka(
    peer: Peer, logs: mqplug.Client, table: Any, tmp_path: Path, options: dict[str, str]
) -> None:
    """A query that reads all messages has the same rows, whatever the log holds, in batches within the same limit."""
    limit = int(options.get("maxOffsetsPerTrigger", "1000000"))
    theirs, their_sizes = table(peer.their_stream(**options), tmp_path / "theirs")
    ours, our_sizes = table(peer.our_stream(**options), tmp_path / "ours")
    assert ours == theirs != []
    assert max(our_sizes) <= limit
    assert len(our_sizes) <= len(their_sizes)
