"""A lock on what is noted about a group on one log, among all members in all processes.

The broker replaces the properties of a subscription as a whole, and compares no versions: of two that change them at
the same time, one would overwrite what the other has read again and found right. The lock is an exclusive consumer of
a subscription of its own, which the broker gives to one at a time and takes from a process that dies.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import _pulsar
import pulsar

import mqplug
from mqplug import Log
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.connection import PROBE_NAME, UNSUBSCRIBE_S, PulsarConnection
from mqplug_pulsar._cluster.errors import error_from_exception

RETRY_S = 0.05  # at most


@contextmanager
def locked(connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> Iterator[None]:
    """Be the only one in here, of this group on this log."""
    held = _take(connection, log, group, deadline)
    try:
        yield
    finally:
        try:
            connection.unsubscribe(held, max(UNSUBSCRIBE_S, deadline.remaining()))
        except (_pulsar.PulsarException, mqplug.Error):  # the topic was unloaded: the next one takes it over
            with suppress(_pulsar.PulsarException):
                held.close()


def _take(connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> Any:
    while True:
        try:
            return connection.opener.consumer(
                connection.native_topic(log),
                f"{PROBE_NAME}-lock-{group}",
                consumer_type=pulsar.ConsumerType.Exclusive,
                receiver_queue_size=0,
                initial_position=pulsar.InitialPosition.Latest,
            )
        except _pulsar.PulsarException as error:  # another one has it, or is just leaving
            translated = error_from_exception(error, log.topic)
            if isinstance(translated, mqplug.AccessDenied | mqplug.AuthError | mqplug.TopicNotFound):
                raise translated from error
            if deadline.expired:
                raise mqplug.Timeout(
                    f"what is noted about the group {group!r} could not be changed in time: other members change it",
                    topic=log.topic, fix="Try again",
                ) from error  # fmt: skip
        time.sleep(random.uniform(0, RETRY_S))  # noqa: S311  # no secret
