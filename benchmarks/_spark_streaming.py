"""Contests of streams in Spark: reading stored messages, and the time from a send to the batch with the message."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from uuid import uuid4

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import mqplug
from benchmarks._contests import Contest, Side, TimedMessages, Work
from benchmarks._load import Load
from benchmarks._process_tree import tree_cpu_s
from benchmarks._spark_backends import SparkPeer

PACE_S = 0.02  # between two messages whose latency is measured
ARRIVAL_S = 120.0  # for all of them to arrive; the first waits for the start of its query
START_TRIES = 5
_SPARK_GAVE_UP = "failed to connect back"  # within ten seconds, too few for a busy machine


def stream_frame(session: SparkSession, peer: SparkPeer, topic: str, start: str) -> DataFrame:
    """Return a stream of a topic, with the columns of spark-sql-kafka."""
    reader = session.readStream.format(peer.format).options(**peer.options)
    return reader.option("subscribe", topic).option("startingOffsets", start).load()


def available_now_contest(
    session: SparkSession, backend: str, topic: str, load: Load, peers: Sequence[SparkPeer]
) -> Contest:
    """Return the contest of streams that read the stored messages and end. The start of the query is timed too."""

    def side(peer: SparkPeer) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            frame = stream_frame(session, peer, topic, "earliest")
            with TemporaryDirectory(prefix="spark-checkpoint-") as folder:
                writer = frame.writeStream.format("noop").option("checkpointLocation", folder)

                def work() -> int:
                    for left in reversed(range(START_TRIES)):
                        try:
                            writer.trigger(availableNow=True).start().awaitTermination()
                            break
                        except StreamingQueryException as error:
                            if not left or _SPARK_GAVE_UP not in str(error):
                                raise
                    return load.messages

                yield work

        return Side(peer.name, peer.words, prepare)

    ours, *rivals = map(side, peers)
    name = f"spark: {backend}, stream availableNow to noop; {load.size} B"
    return Contest(name=name, ours=ours, rivals=rivals, unit="row", cpu_time=tree_cpu_s)


def latency_contest(
    session: SparkSession, backend: str, peers: Mapping[SparkPeer, mqplug.Client], messages: int
) -> Contest:
    """Return the contest of latency: messages arrive one by one, and a query with the default trigger collects them."""

    def side(peer: SparkPeer, client: mqplug.Client) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            topic = f"latency-{uuid4().hex}"
            client.create_topic(topic)
            with _arrivals(stream_frame(session, peer, topic, "earliest")) as arrivals, client.producer(topic) as out:
                out.send(b"first")
                arrivals.wait(1)
                yield lambda: _sent_one_by_one(out, arrivals, messages)

        return Side(peer.name, peer.words, prepare)

    ours, *rivals = (side(peer, client) for peer, client in peers.items())
    name = f"spark: {backend}, from send to foreachBatch"
    return Contest(name=name, ours=ours, rivals=rivals, cpu_time=tree_cpu_s)


class _Arrivals:
    """The times at which the messages of a query were collected."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._came = threading.Condition()

    def collect(self, frame: DataFrame, batch: int) -> None:
        """Collect a batch, as foreachBatch does."""
        rows = frame.select("value").collect()
        with self._came:
            self.times += [time.perf_counter()] * len(rows)
            self._came.notify_all()

    def wait(self, messages: int) -> None:
        """Wait until this many messages have arrived since the start of the query."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.times) >= messages, ARRIVAL_S)


@contextmanager
def _arrivals(frame: DataFrame) -> Iterator[_Arrivals]:
    arrivals = _Arrivals()
    with TemporaryDirectory(prefix="spark-checkpoint-", ignore_cleanup_errors=True) as folder:
        writer = frame.writeStream.foreachBatch(arrivals.collect).option("checkpointLocation", folder)
        query = writer.start()
        try:
            for _ in range(START_TRIES):
                with suppress(StreamingQueryException):
                    query.processAllAvailable()
                    break
                query = writer.start()
            yield arrivals
        finally:
            query.stop()


def _sent_one_by_one(out: mqplug.Producer, arrivals: _Arrivals, messages: int) -> TimedMessages:
    before, sent = len(arrivals.times), []
    for _ in range(messages):
        sent.append(time.perf_counter())
        out.send(b"measured")
        time.sleep(PACE_S)
    arrivals.wait(before + messages)
    came = arrivals.times[before:]
    return TimedMessages([there - here for here, there in zip(sent, came, strict=True)], paced=True)
