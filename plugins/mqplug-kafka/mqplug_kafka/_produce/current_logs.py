"""What the logs of a topic are called now, for the ids that a producer hands out.

A topic may be deleted and made again while a producer lives; the native client sends on without a word, and the new
topic's ids have another incarnation. So each topic is looked at once a second while it is sent to, and what was stored
meanwhile gets its id when the answer is there: a few milliseconds later, and no later than the broker's own report as
a rule, since both were asked for at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress

from confluent_kafka import KafkaException
from confluent_kafka.admin import TopicDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import Log
from mqplug_kafka._cluster.connection import KafkaConnection

NAME_REFRESH_S = 1.0


class CurrentLogs:
    """The logs of the topics that one producer sends to."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self.due: dict[str, float] = {}
        """When each topic is to be looked at again."""
        self._pending: dict[str, Future[TopicDescription]] = {}  # the looks under way
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()  # what is stored, but has no name yet

    def refresh(self, topic: str, now: float) -> None:
        """A topic is about to be sent to, and is due; at the first time the core has asked for it just now."""
        if topic in self.due and topic not in self._pending:
            with suppress(KafkaException):  # no broker tells: the last answer holds
                self._pending[topic] = self._connection.look(topic)
        self.due[topic] = now + NAME_REFRESH_S

    def when_known(self, topic: str, settle: Callable[[], None]) -> None:
        """Settle what is stored in a topic: now, or when its logs are known again; always in order."""
        if self._waiting or self._pending:
            self._waiting.append((topic, settle))
        else:
            settle()

    def settle(self, timeout: float) -> None:
        """Settle what waits, as far as the logs are known, or become known in time."""
        waiting = self._waiting
        while waiting and self._known(waiting[0][0], timeout):
            try:
                _, settle = waiting.popleft()
            except IndexError:  # another thread was quicker
                return
            settle()

    def _known(self, topic: str, timeout: float) -> bool:
        look = self._pending.get(topic)
        if look is None:
            return True
        try:
            self._connection.take_in(look.result(timeout))
        except FutureTimeout:
            return False
        except KafkaException:
            pass  # no broker told: the last answer holds
        self._pending.pop(topic, None)
        return True

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition."""
        info = self._connection.known(topic)
        if info is None:
            return self._connection.log(topic, partition, "")  # deleted by this very client
        if partition < len(info.logs):
            return info.logs[partition]
        return self._connection.log(topic, partition, info.logs[0].incarnation)
