"""Streaming reads on Spark, over each backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clusters import Cluster, over, send
from pyspark.errors import StreamingQueryException
from queries import finished

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)  # the first test that needs Spark or a broker starts it

Batches = dict[int, list[tuple[int, int]]]  # the partitions and numbers of each batch


@pytest.fixture
def run(spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path) -> Callable[..., Batches]:
    """Return a function that runs a query of the topic until nothing is left, and returns its batches."""

    def run(*, fails_in: int = -1, **options: str) -> Batches:
        batches: Batches = {}

        def take(frame: DataFrame, number: int) -> None:
            batches[number] = sorted((row.partition, int(row.value)) for row in frame.collect())
            assert number != fails_in, "the batch fails"

        stream = spark.readStream.format("mqplug").option("url", cluster.url).options(**options)
        writer = stream.load().writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        finished(writer.foreachBatch(take).start)
        return batches

    return run


@over("kafka", at_night=["rocksmq", "pulsar"])
def test_a_query_that_fails_goes_on_where_it_was(
    run: Callable[..., Batches], cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """Batches are exact under a limit. A failed batch is repeated unchanged; a new partition is read completely.

    The lag of the group is 0 at the end, and Spark's checkpoint holds the texts of positions unchanged.
    """
    send(cluster, topic, 6_000, partition=0)
    send(cluster, topic, 2_000, partition=1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "commitGroup": f"lag-{topic}"}
    if cluster.has_offsets:
        options["maxOffsetsPerTrigger"] = "2000"
    failing = 2 if cluster.has_offsets else 0
    with pytest.raises(StreamingQueryException, match="the batch fails"):
        run(fails_in=failing, **options)
    cluster.client.add_partitions(topic, 3)
    send(cluster, topic, 1_000, partition=2)
    batches = run(**options)
    sizes = [sum(partition == each for partition, _ in batches[failing]) for each in (0, 1, 2)]
    assert sizes == ([1_500, 500, 0] if cluster.has_offsets else [6_000, 2_000, 0])
    rest = sorted(row for rows in batches.values() for row in rows)
    done = 1_500 * failing, 500 * failing
    assert rest == [
        *((0, number) for number in range(done[0], 6_000)),
        *((1, number) for number in range(done[1], 2_000)),
        *((2, number) for number in range(1_000)),
    ]
    assert set(cluster.client.lag(topic, group=f"lag-{topic}").values()) == {0}
    last = max(batches)
    stored = json.loads((tmp_path / "offsets" / str(last)).read_text().splitlines()[-1])
    assert [text.split(" ")[-1].split("~")[0] for text in stored[topic].values()] == ["p1"] * 3
    assert run(**options) == {}


def test_what_ends_a_query_is_said_in_one_line(run: Callable[..., Batches]) -> None:
    """The error of mqplug reaches the user of the query, with its fix and without its causes."""
    with pytest.raises(StreamingQueryException, match=r"TopicNotFound.*nowhere") as refused:
        run(subscribe="nowhere")
    assert "During handling" not in str(refused.value)
    assert "direct cause" not in str(refused.value)
