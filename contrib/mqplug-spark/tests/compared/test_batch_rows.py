"""Batch reads of Kafka, compared row by row with spark-sql-kafka."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from peers import NOON, TOPICS, in_order, points
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import mqplug

if TYPE_CHECKING:
    from peers import Peer

pytestmark = pytest.mark.timeout(600)  # the first test that needs Spark or Kafka starts it

LOST = {"subscribe": "peer-trimmed", "startingOffsets": points("peer-trimmed", 2)}


def test_every_row_is_that_of_spark_sql_kafka(peer: Peer, logs: mqplug.Client) -> None:
    """Each column of each row is the same, whatever the log holds, and no row is extra."""
    subscribe = ",".join(TOPICS)
    ours, theirs = in_order(peer.ours(subscribe=subscribe)), in_order(peer.theirs(subscribe=subscribe))
    assert ours == theirs
    assert {row.topic for row in ours} == set(TOPICS)
    assert {row.timestampType for row in ours} == {0, 1}
    assert {len(row.headers) if row.headers is not None else None for row in ours} == {None, 1, 5}
    assert {bytes(row.value) for row in ours if row.topic == "peer-transactions"} == {b"0", b"1", b"2", b"3", b"5"}


RANGES = {
    "offsets": {
        "subscribe": "peer-plain",
        "startingOffsets": points("peer-plain", 3, -2, 16),
        "endingOffsets": points("peer-plain", 9, -1, 16),
    },
    "gaps of compaction": {
        "subscribe": "peer-compacted",
        "startingOffsets": points("peer-compacted", 3),
        "endingOffsets": points("peer-compacted", 29),
    },
    "markers of transactions": {
        "subscribe": "peer-transactions",
        "startingOffsets": points("peer-transactions", 1, 3),
        "endingOffsets": points("peer-transactions", 8, 6),
    },
    "times": {
        "subscribe": "peer-plain,peer-compacted",
        "startingTimestamp": str(NOON + 10),
        "endingTimestamp": str(NOON + 20_000),
    },
    "times of partitions": {
        "subscribe": "peer-plain",
        "startingOffsetsByTimestamp": points("peer-plain", NOON + 4000, NOON + 4001, 0),
        "endingOffsetsByTimestamp": points("peer-plain", NOON + 30_000, NOON + 90_000, NOON + 15_000),
        "startingOffsets": points("peer-plain", 15, 15, 15),  # times take precedence
    },
    "a time that is too late": {
        "subscribe": "peer-plain",
        "startingOffsetsByTimestamp": points("peer-plain", NOON + 40_000, NOON + 99_000, NOON),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "some partitions": {"assign": json.dumps({"peer-plain": [0, 2], "peer-trimmed": [0]})},
    "a pattern": {"subscribePattern": "peer-(app|tri|none).*"},
    "more tasks": {"subscribe": "peer-plain,peer-compressed", "minPartitions": "9"},
    "small tasks": {"subscribe": "peer-plain,peer-trimmed", "maxRecordsPerPartition": "7"},
    "what is left": LOST | {"failOnDataLoss": "false"},
}


@pytest.mark.night
@pytest.mark.parametrize("options", RANGES.values(), ids=RANGES)
def test_the_same_options_give_the_same_rows(peer: Peer, logs: mqplug.Client, options: dict[str, str]) -> None:
    """The start and the end of a read mean the same as in spark-sql-kafka, for any number of tasks."""
    assert in_order(peer.ours(**options)) == in_order(peer.theirs(**options)) != []


MISTAKES = {
    "a lost start": LOST,
    "a partition that is not named": {"subscribe": "peer-plain", "startingOffsets": points("peer-plain", 0)},
    "a partition too many": {"subscribe": "peer-trimmed", "startingOffsets": points("peer-trimmed", -2, -2)},
    "a topic too many": {"subscribe": "peer-plain", "endingOffsets": points("peer-trimmed", 0)},
    "an end at the beginning": {"subscribe": "peer-trimmed", "endingOffsets": points("peer-trimmed", -2)},
    "no message as late": {"subscribe": "peer-plain", "startingTimestamp": str(NOON + 999_000)},
    "two choices of topics": {"subscribe": "peer-plain", "subscribePattern": "peer.*"},
    "no topic": {},
}


@pytest.mark.night
@pytest.mark.parametrize("options", MISTAKES.values(), ids=MISTAKES)
def test_what_spark_sql_kafka_refuses_is_refused(peer: Peer, logs: mqplug.Client, options: dict[str, str]) -> None:
    """Neither reads anything if an option is wrong."""
    with pytest.raises((PySparkException, Py4JError)):
        peer.theirs(**options).collect()
    with pytest.raises(PySparkException):
        peer.ours(**options).collect()
