"""Topic ids, which tell a topic from another one of the same name. Old brokers have none, nor have some cloud services.

Kafka has them since 2.8. Without them all topics have the id zero: their incarnation is empty, and never taken for
another one.
"""

from __future__ import annotations

from confluent_kafka.admin import TopicDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug_kafka._cluster.log_throttle import logger

NO_IDS = (
    "the broker reports no topic ids, so a topic that was deleted and created again cannot be told from the old one: "
    "old message ids and positions would be taken for the new topic's. Kafka has topic ids since 2.8; before, do not "
    "reuse the names of deleted topics"
)


def incarnation(topic: TopicDescription) -> str:
    """Return the topic's UUID, as Kafka's own tools write it, or "" if it has none."""
    text = str(topic.topic_id).rstrip("=").replace("/", "_").replace("+", "-")
    return text if text.strip("A") else ""  # A is the digit 0


def is_other(found: str, known: str) -> bool:
    """Return whether two incarnations are proven to differ. Brokers may get topic ids while a topic is in use."""
    return bool(found and known) and found != known


class MissingIds:
    """Warns once if the broker reports no topic ids."""

    def __init__(self) -> None:
        self.looked = False  # whether any topic was described
        self._warned = False

    def look(self, topic: TopicDescription) -> None:
        """Look at a topic that was described."""
        self.looked = True
        if not self._warned and not incarnation(topic):
            self._warned = True
            logger.warning(NO_IDS)
