"""spark-sql-kafka, with which mqplug is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from clusters import points

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["COLUMNS", "NOON", "TOPICS", "Peer", "in_order", "points"]

NOON = 1_700_000_000_000  # every message has its own timestamp: this many milliseconds, or somewhat more
TOPICS = ("peer-plain", "peer-appended", "peer-transactions", "peer-compacted", "peer-trimmed", "peer-compressed")
COLUMNS = ("topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers")


@attrs.frozen
class Peer:
    """One Kafka, read by mqplug and by spark-sql-kafka with the same options."""

    spark: SparkSession
    url: str
    bootstrap: str

    def our_stream(self, **options: str) -> DataFrame:
        """Return mqplug's streaming read."""
        reader = self.spark.readStream.format("mqplug").option("url", self.url)
        return reader.option("includeHeaders", "true").options(**options).load().select(*COLUMNS)

    def their_stream(self, **options: str) -> DataFrame:
        """Return spark-sql-kafka's streaming read of committed messages."""
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        reader = reader.option("kafka.isolation.level", "read_committed").option("includeHeaders", "true")
        return reader.options(**options).load().select(*COLUMNS)

    def ours(self, **options: str) -> DataFrame:
        """Return mqplug's read."""
        reader = self.spark.read.format("mqplug").option("url", self.url)
        return reader.option("includeHeaders", "true").options(**options).load().select(*COLUMNS)

    def theirs(self, **options: str) -> DataFrame:
        """Return spark-sql-kafka's read of committed messages, which mqplug always reads."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        reader = reader.option("kafka.isolation.level", "read_committed").option("includeHeaders", "true")
        return reader.options(**options).load().select(*COLUMNS)


def in_order(frame: DataFrame) -> list[Row]:
    """Return the rows of a frame, sorted by topic, partition and offset."""
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))
