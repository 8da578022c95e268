"""Contests of batch reads in Spark: to nowhere, counted, and to Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from benchmarks._constant_source import COLUMNS
from benchmarks._contests import Contest, Side, Work
from benchmarks._load import Load
from benchmarks._process_tree import tree_cpu_s
from benchmarks._spark_backends import SparkPeer

Drain = Callable[[DataFrame, str], None]
"""Reads a frame to its end. It may write into this folder."""


def to_noop(frame: DataFrame, folder: str) -> None:
    """Read all columns, and write them nowhere."""
    frame.write.format("noop").mode("overwrite").save()


def counted(frame: DataFrame, folder: str) -> None:
    """Count the rows."""
    frame.count()


def to_parquet(frame: DataFrame, folder: str) -> None:
    """Write all columns to Parquet files."""
    frame.write.mode("overwrite").parquet(folder)


DRAINS: Mapping[str, Drain] = {"to noop": to_noop, "count()": counted, "to Parquet": to_parquet}


def read_frame(session: SparkSession, peer: SparkPeer, topic: str) -> DataFrame:
    """Return the messages of a topic, with the columns of spark-sql-kafka."""
    reader = session.read.format(peer.format).options(**peer.options).option("subscribe", topic)
    return reader.load() if peer.format == "kafka" else reader.schema(COLUMNS).load()


def reading_contests(
    session: SparkSession, backend: str, topic: str, load: Load, peers: Sequence[SparkPeer], aims: Mapping[str, float]
) -> list[Contest]:
    """Return a contest for each kind of read; the first peer is ours. The aims are for reads to noop."""

    def side(peer: SparkPeer, drain: Drain) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            frame = read_frame(session, peer, topic)
            with TemporaryDirectory(prefix="spark-sink-") as folder:

                def work() -> int:
                    drain(frame, folder)
                    return load.messages

                yield work

        return Side(peer.name, peer.words, prepare)

    def contest(kind: str, drain: Drain) -> Contest:
        ours, *rivals = (side(peer, drain) for peer in peers)
        return Contest(
            name=f"spark: {backend}, read {kind}; {load.size} B", ours=ours, rivals=rivals, unit="row",
            min_speed_ratios=aims_of(kind, aims), cpu_time=tree_cpu_s,
        )  # fmt: skip

    return [contest(kind, drain) for kind, drain in DRAINS.items()]


def aims_of(kind: str, aims: Mapping[str, float]) -> Mapping[str, float]:
    """Return the aims of a kind of read. A count must be faster than both forms of the connector."""
    if kind == "to noop":
        return aims
    return {"connector": 1.0, "tuned": 1.0} if kind == "count()" else {}
