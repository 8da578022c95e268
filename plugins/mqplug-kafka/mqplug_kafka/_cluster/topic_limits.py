"""What the brokers accept for the topics in use: the size of batches, records without a key, and times of records.

Each topic's configuration is read when the topic is first sent to, and again when the broker refused something. A
client that may not read it finds the size by smaller and smaller batches.
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
)

READ_TIMEOUT_S = 5.0
MAX_BYTES, CLEANUP_POLICY = "max.message.bytes", "cleanup.policy"
TIME_BEFORE, TIME_AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"


@attrs.frozen
class TopicLimits:
    """The limits of a topic, as far as they are known."""

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
        """Return whether the limits of a topic have been asked for, and the answer is in."""
        return topic in self._known and topic not in self._pending

    def await_answer(self, topic: str, timeout: float) -> bool:
        """Return whether the answer about a topic is in, even if it is that this client may not know."""
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
    power_of_two = 1 << max(0, size.bit_length() - 1)  # so that few native producers serve all topics
    times = None
    if TIME_BEFORE in config and TIME_AFTER in config:  # not before Kafka 3.6
        times = int(str(config[TIME_BEFORE].value)), int(str(config[TIME_AFTER].value))
    return TopicLimits(power_of_two, compacted="compact" in str(config[CLEANUP_POLICY].value), times=times)
