"""Finds topics that were deleted under their producers.

The native client tries to reach the broker of a deleted topic for ever, and says nothing. So whoever waits for a
message looks whether its native producer has a broker, and if not, whether the topic still exists. While brokers are
down or hand a topic over, the answer is that it exists, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import _pulsar

import mqplug
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._produce.partition_producer import PartitionProducer

ANSWER_TIMEOUT_S = 5.0


def end_deleted(connection: PulsarConnection, lanes: Sequence[PartitionProducer]) -> None:
    """End those of these producers whose topics are gone."""
    for lane in lanes:
        with suppress(mqplug.Error, _pulsar.PulsarException):  # no answer: the next look asks again
            if _is_gone(connection, lane):
                lane.end(partial(_still_gone, connection, lane))
                connection.forget(lane.log.topic)


def _still_gone(connection: PulsarConnection, lane: PartitionProducer) -> bool:
    with suppress(mqplug.Error, _pulsar.PulsarException):
        return _is_gone(connection, lane)
    return False


def _is_gone(connection: PulsarConnection, lane: PartitionProducer) -> bool:
    """Return whether there is no topic that holds this log. Raise if no broker tells."""
    full = connection.names.full(lane.log.topic)
    try:
        topics = connection.client.get_topic_partitions(full)
        if topics == [full] and connection.admin is not None:
            connection.admin.stats(full, ANSWER_TIMEOUT_S)  # with automatic creation a broker finds every name
    except (_pulsar.TopicNotFound, mqplug.TopicNotFound):
        return True
    return lane.native_topic not in topics
