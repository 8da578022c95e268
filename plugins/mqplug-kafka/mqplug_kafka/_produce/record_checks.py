"""Checks of what Kafka, or its native client, would not store as it is: some timestamps, and header names with NUL."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError

from mqplug import Error, InvalidRecord
from mqplug.spi import Sending
from mqplug_kafka._cluster.errors import bad_time
from mqplug_kafka._cluster.topic_metadata import TopicLimits


def unstorable(sending: Sending, future_max: float) -> Error | None:
    """Return the error of a record that could not be stored as it is, before any I/O; None if it can be sent."""
    moment = sending.timestamp
    if moment is not None and (why := _bad_time(moment, future_max)):
        return bad_time(moment, why)
    for name, _ in sending.headers:
        if "\0" in name:
            return InvalidRecord(
                f"the header name {name!r} contains NUL, where Kafka's native client would end it",
                fix="Leave NUL out of header names, or put it into the header's value",
            )
    return None


def _bad_time(moment: int, future_max: float) -> str | None:
    """Return why Kafka would not store this timestamp; None if it would."""
    if moment == 0:
        return "Kafka takes 0 to mean now"
    if moment > (time.time() + future_max) * 1000:
        return f"it is more than {future_max:g} s in the future, the setting future_max"
    return None


def is_itself_invalid(error: KafkaError, sending: Sending, limits: TopicLimits) -> bool:
    """Return whether a record is itself the reason that its batch was refused as invalid, or may be, by its limits.

    If exactly one record of a batch is invalid, librdkafka 2.16 reports the others with the same code.
    """
    if error.code() not in {KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}:
        return False
    lacks_key = sending.key is None and limits.compacted is not False
    return lacks_key or (sending.timestamp is not None and not _is_in_time(sending.timestamp, limits.times))


def _is_in_time(moment: int, limits: tuple[int, int] | None) -> bool:
    """Return whether the broker certainly accepts this timestamp."""
    return limits is not None and -limits[0] <= moment - time.time() * 1000 <= limits[1]
