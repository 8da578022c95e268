"""What the logs of a topic are called now, for the ids that a producer hands out.

A topic may be deleted and made again while a producer lives; the native client sends on without a word, and the new
topic's ids have another incarnation. So each topic is looked at once a second while it is sent to, and what was stored
meanwhile gets its id when the answer is there: a few milliseconds later, and no later than the broker's own report as
a rule, since both were asked for at once.
"""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaException
from confluent_kafka.admin import TopicDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import Log
from mqplug_kafka._connection import KafkaConnection

EVERY = 1.0


class CurrentLogs:
    """The logs of the topics that one producer sends to."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self.due: dict[str, float] = {}
        """When each topic is to be looked at again."""
        self.pending: dict[str, Future[TopicDescription]] = {}
        """The looks under way."""

    def refresh(self, topic: str, now: float) -> None:
        """A topic is about to be sent to, and is due; at the first time the core has asked for it just now."""
        if topic in self.due and topic not in self.pending:
            self.pending[topic] = self._connection.look(topic)
        self.due[topic] = now + EVERY

    def known(self, topic: str, timeout: float) -> bool:
        """Whether the topic's logs are known, or become known in time."""
        look = self.pending.get(topic)
        if look is None:
            return True
        try:
            self._connection.take_in(look.result(timeout))
        except FutureTimeout:
            return False
        except KafkaException:
            pass  # no broker told: the last answer holds
        self.pending.pop(topic, None)
        return True

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition."""
        info = self._connection.known(topic)
        if info is None:
            return self._connection.log(topic, partition, "")  # deleted by this very client
        if partition < len(info.logs):
            return info.logs[partition]
        return self._connection.log(topic, partition, info.logs[0].incarnation)
