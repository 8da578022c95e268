"""The peers of the Spark contests: a RocksMQ store that another process owns, a Kafka broker, and rivals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import attrs

import mqplug
from benchmarks._kafka_sending import fill_topic
from benchmarks._load import Load
from mqplug import Record
from mqplug_devbrokers import KafkaServer

PARTITIONS = 4
FAST_OPTIONS = {
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": "4194304",
    "kafka.fetch.max.bytes": "33554432",
    "kafka.receive.buffer.bytes": "1048576",
}
"""The options with which spark-sql-kafka reads fastest."""


@attrs.frozen
class SparkPeer:
    """A source or sink that Spark reads or writes by its format and options."""

    name: str
    words: str
    format: str
    options: Mapping[str, str] = attrs.field(hash=False)


@attrs.frozen
class Backend:
    """A backend of mqplug, running."""

    peer: SparkPeer
    client: mqplug.Client

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.client.backend

    def fill(self, load: Load) -> str:
        """Send the messages of a load, and return the name of their new topic."""
        topic = f"full-{load.size}"
        self.client.create_topic(topic, partitions=load.partitions)
        with self.client.producer(topic) as out:
            for batch in range(load.batches):
                keyed = [
                    Record(value, key=b"key-%d" % (number % 100), partition=batch % load.partitions)
                    for number, value in enumerate(load.values)
                ]
                out.send_many(keyed)
        return topic


class RunningKafka(Backend):
    """A broker of Kafka."""

    def fill(self, load: Load) -> str:
        """Send the messages of a load as fast as the client can."""
        topic = f"full-{load.size}"
        self.client.create_topic(topic, partitions=load.partitions)
        fill_topic(self.peer.options["url"].removeprefix("kafka://"), topic, load)
        return topic


@contextmanager
def running_rocksmq() -> Iterator[Backend]:
    """Yield a store that a separate process owns, as with ``mqplug rocksmq serve``."""
    with TemporaryDirectory(prefix="rocksmq-") as path:
        command = [sys.executable, "-m", "mqplug_cli", "rocksmq", "serve", "--sync", "os", path]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
            try:
                assert owner.stdout
                assert owner.stdout.readline()
                url = f"rocksmq://{path}"
                words = "format('mqplug') on a store that another process owns"
                with mqplug.connect(url) as client:
                    yield Backend(SparkPeer("mqplug", words, "mqplug", {"url": url}), client)
            finally:
                owner.terminate()


@contextmanager
def running_kafka() -> Iterator[tuple[RunningKafka, list[SparkPeer]]]:
    """Yield a broker for mqplug, and spark-sql-kafka on the same broker: with its defaults and with fast options."""
    with KafkaServer() as server, mqplug.connect(server.url) as client:
        ours = SparkPeer("mqplug", "format('mqplug') on the same broker", "mqplug", {"url": server.url})
        plain = {"kafka.bootstrap.servers": server.bootstrap}
        connectors = [
            SparkPeer("connector", "spark-sql-kafka with its defaults", "kafka", plain),
            SparkPeer("tuned", "spark-sql-kafka with its four fast options", "kafka", {**plain, **FAST_OPTIONS}),
        ]
        yield RunningKafka(ours, client), connectors


def constant_peer(load: Load) -> SparkPeer:
    """Return the source that yields one constant batch, with as many rows as the load has messages."""
    options = {"size": load.size, "rows": load.messages // PARTITIONS, "partitions": PARTITIONS}
    words = "a source of Python that yields one constant batch"
    return SparkPeer("constant", words, "constant", {name: str(each) for name, each in options.items()})
