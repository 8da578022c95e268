"""Notices that the brokers do not know the consumer protocol: the native client of a member then waits in silence."""

from __future__ import annotations

import time

from confluent_kafka import ConsumerGroupType

from mqplug import ConfigError, Error
from mqplug_kafka._cluster.connection import KafkaConnection

ADMISSION_S = 5.0  # without a first assignment, before the group is looked at
LOOK_TIMEOUT_S = 2.0


class Admission:
    """Whether a group has admitted its member of the consumer protocol."""

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._connection = connection
        self._group = group
        waits = connection.settings.group_protocol == "consumer"
        self._look_at: float | None = time.monotonic() + ADMISSION_S if waits else None

    def granted(self) -> None:
        """Note an assignment, even an empty one."""
        self._look_at = None

    def check(self) -> None:
        """Raise ``ConfigError`` if the group is still none of the consumer protocol. Looks every few seconds."""
        if self._look_at is None or time.monotonic() < self._look_at:
            return
        try:
            found = self._connection.coordinators.describe([self._group], LOOK_TIMEOUT_S)[self._group]
        except Error:  # no coordinator answers: the native client waits for one, too
            return
        finally:
            self._look_at = time.monotonic() + ADMISSION_S
        if found.type is not ConsumerGroupType.CONSUMER:
            raise ConfigError(
                f"the group {self._group!r} admits no member of the consumer protocol",
                fix="Say group_protocol='classic': the consumer protocol needs Kafka 4.0 or newer",
            )
