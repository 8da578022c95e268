"""The id of the cluster that a client is connected to, which any broker tells.

It is asked for by a plain request for metadata. The native ``describe_cluster`` ends the process if a controller that
was just restarted knows of no broker yet: then its answer names no broker and no topic, which librdkafka 2.16 does not
expect.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mqplug.spi import Deadline
from mqplug_kafka._cluster.worker import NativeWorker

ASKED_TOPIC = "__consumer_offsets"  # metadata of one topic are asked for, whether or not it exists: all may be many
ASK_SLICE_S = 1.0  # after each, a client that was closed meanwhile asks no more
ASK_PAUSE_S = 0.02


class ClusterIdentity:
    """Asks for the cluster's id, on a thread of its own."""

    def __init__(self, admin: Callable[[], AdminClient]) -> None:
        self._admin = admin
        self._worker = NativeWorker("mqplug-kafka-cluster")
        self._ended = Event()

    def ask(self, timeout: float) -> Future[str]:
        """Begin to ask, again and again until a broker answers, for this long at most."""
        return self._worker.run(lambda: self._ask(Deadline(timeout)))

    def _ask(self, deadline: Deadline) -> str:
        while True:
            try:
                metadata = self._admin().list_topics(ASKED_TOPIC, timeout=max(0.01, deadline.remaining(ASK_SLICE_S)))
            except KafkaException:
                if self._ended.wait(ASK_PAUSE_S) or deadline.expired:
                    raise
            else:
                return str(metadata.cluster_id)

    def end(self) -> None:
        """End the thread, with the question under way. Does not wait."""
        self._ended.set()
        self._worker.stop()
