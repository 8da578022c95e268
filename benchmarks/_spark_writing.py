"""Contests of batch writes in Spark: from Parquet files to a topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

import mqplug
from benchmarks._contests import Contest, Side, Work
from benchmarks._load import Load
from benchmarks._process_tree import tree_cpu_s
from benchmarks._spark_backends import PARTITIONS, SparkPeer, constant_peer


def parquet_of(session: SparkSession, load: Load, folder: Path) -> str:
    """Write the keys and values of a load to Parquet files, and return their folder."""
    path = str(folder / f"rows-{load.size}")
    peer = constant_peer(load)
    session.read.format(peer.format).options(**peer.options).load().select("key", "value").write.parquet(path)
    return path


def writing_contest(
    session: SparkSession, backend: str, rows: str, load: Load, peers: Mapping[SparkPeer, mqplug.Client]
) -> Contest:
    """Return the contest of writing these Parquet files, each time to a new topic. The first peer is ours."""

    def side(peer: SparkPeer, client: mqplug.Client) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            topic = f"written-{uuid4().hex}"
            client.create_topic(topic, partitions=PARTITIONS)
            writer = session.read.parquet(rows).write.format(peer.format).options(**peer.options)

            def work() -> int:
                writer.option("topic", topic).mode("append").save()
                return load.messages

            yield work
            stored = sum(mark.count for mark in client.watermarks(topic).values() if mark.count)
            assert stored >= load.messages
            client.delete_topic(topic)

        return Side(peer.name, peer.words, prepare)

    ours, *rivals = (side(peer, client) for peer, client in peers.items())
    name = f"spark: {backend}, batch write; {load.size} B"
    aims = {"connector": 1.0}
    return Contest(name=name, ours=ours, rivals=rivals, unit="row", min_speed_ratios=aims, cpu_time=tree_cpu_s)
