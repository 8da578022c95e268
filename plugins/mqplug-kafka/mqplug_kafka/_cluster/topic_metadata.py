"""The brokers' data about a topic: its id, which distinguishes recreated topics of one name, and its limits.

Kafka has topic ids since 2.8; old brokers and some cloud services have none. Without them all topics have the id zero:
their incarnation is empty, and never counts as a different one.

A topic limits the size of batches, may refuse records without a key, and refuses times too far from the broker's. Its
configuration is read at the first send to it, and again after a refusal. A client that may not read it finds the size
with smaller and smaller batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, TimeoutError as FutureTimeout
from contextlib import suppress

import attrs
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    TopicDescription,  # pyright: ignore[reportPrivateImportUsage]
)

from mqplug_kafka._cluster.log_throttle import logger

NO_IDS = (
    "the broker reports no topic ids, so a topic that was deleted and recreated cannot be detected: old message ids "
    "and positions would be used for the new topic. Kafka has topic ids since 2.8; on older brokers, do not reuse the "
    "names of deleted topics"
)

READ_TIMEOUT_S = 5.0
MAX_BYTES, CLEANUP_POLICY = "max.message.bytes", "cleanup.policy"
TIME_BEFORE, TIME_AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"


def incarnation(topic: TopicDescription) -> str:
    """Return the topic's UUID in the form of Kafka's own tools, or "" if it has none."""
    text = str(topic.topic_id).rstrip("=").replace("/", "_").replace("+", "-")
    return text if text.strip("A") else ""  # A is the digit 0


def is_other(found: str, known: str) -> bool:
    """Return whether two incarnations certainly differ. Brokers may get topic ids while a topic is in use."""
    return bool(found and known) and found != known


class MissingIds:
    """Warns once if the broker reports no topic ids."""

    def __init__(self) -> None:
        self.looked = False  # whether any topic was described
        self._warned = False

    def look(self, topic: TopicDescription) -> None:
        """Check a described topic for its id."""
        self.looked = True
        if not self._warned and not incarnation(topic):
            self._warned = True
            logger.warning(NO_IDS)


@attrs.frozen
class TopicLimits:
    """The known limits of a topic."""

    batch_bytes: int | None = None
    guessed: bool = False
    """Whether the size is a guess, because this client may not read it."""
    compacted: bool | None = None
    times: tuple[int, int] | None = None
    """How many milliseconds the time of a record may lie before and after the broker's."""


class LimitsOfTopics:
    """The limits of the topics that a client sends to."""

    def __init__(self, admin: Callable[[], AdminClient]) -> None:
        self._admin = admin
        self._known: dict[str, TopicLimits] = {}
        self._pending: dict[str, Future[Mapping[str, ConfigEntry]]] = {}

    def ask(self, topic: str) -> None:
        """Begin to read the limits of a topic."""
        if topic not in self._pending:
            wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
            with suppress(KafkaException):
                self._pending[topic] = self._admin().describe_configs([wanted], request_timeout=READ_TIMEOUT_S)[wanted]

    def is_known(self, topic: str) -> bool:
        """Return whether the limits of a topic were requested and the answer is in."""
        return topic in self._known and topic not in self._pending

    def await_answer(self, topic: str, timeout: float) -> bool:
        """Return whether the answer about a topic is in, even if it is a refusal."""
        pending = self._pending.get(topic)
        known = self._known.get(topic, TopicLimits())
        if pending is not None:
            try:
                known = _limits_from_config(pending.result(timeout))
            except FutureTimeout:
                return False
            except KafkaException:  # no right to read it, or no broker answers
                pass
        self._known[topic] = known
        self._pending.pop(topic, None)
        return True

    def of(self, topic: str) -> TopicLimits:
        """Return the limits of a topic."""
        return self._known.get(topic, TopicLimits())

    def guess(self, topic: str, batch_bytes: int) -> None:
        """Note that larger batches of a topic were refused."""
        self._known[topic] = attrs.evolve(self.of(topic), batch_bytes=batch_bytes, guessed=True)

    def forget(self, topic: str) -> None:
        """Forget a deleted topic."""
        self._known.pop(topic, None)


def _limits_from_config(config: Mapping[str, ConfigEntry]) -> TopicLimits:
    size = int(str(config[MAX_BYTES].value))
    power_of_two = 1 << max(0, size.bit_length() - 1)  # so that few client producers serve all topics
    times = None
    if TIME_BEFORE in config and TIME_AFTER in config:  # not before Kafka 3.6
        times = int(str(config[TIME_BEFORE].value)), int(str(config[TIME_AFTER].value))
    return TopicLimits(power_of_two, compacted="compact" in str(config[CLEANUP_POLICY].value), times=times)
