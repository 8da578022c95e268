"""Messages that mqplug writes to Kafka, read by spark-sql-kafka, and the reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from peers import in_order

import mqplug

if TYPE_CHECKING:
    from peers import Peer
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.timeout(600)  # the first test that needs Spark or Kafka starts it

WRITTEN = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int"
ROWS = [
    (b"k1", b"v1", [("a", b"1"), ("a", None), ("b", b"")], None),
    (b"k2", None, None, None),
    (b"", b"", [("a", b"\xff")], None),
    (None, b"v4", None, 1),
    (b"k5", b"v5", None, 2),
    *((f"key-{number}".encode(), str(number).encode(), None, None) for number in range(40)),
]


def save(frame: DataFrame, source: str, topic: str, **options: str) -> None:
    """Append the rows to a topic."""
    frame.write.format(source).mode("append").option("topic", topic).options(**options).save()


def test_each_reads_what_the_other_has_written(peer: Peer) -> None:
    """Both read the same keys, values and headers in the same partitions from rows that either has written."""
    frame = peer.spark.createDataFrame(ROWS, WRITTEN).coalesce(1)
    with mqplug.connect(peer.url) as mq:
        for topic in ("written-by-us", "written-by-them"):
            mq.create_topic(topic, partitions=3)
    save(frame, "mqplug", "written-by-us", url=peer.url)
    save(frame, "kafka", "written-by-them", **{"kafka.bootstrap.servers": peer.bootstrap})
    found = [
        [(row.partition, row.offset, row.key, row.value, row.headers) for row in in_order(read(subscribe=topic))]
        for topic in ("written-by-us", "written-by-them")
        for read in (peer.ours, peer.theirs)
    ]
    assert found[0] == found[1] == found[2] == found[3]
    assert len(found[0]) == len(ROWS)
