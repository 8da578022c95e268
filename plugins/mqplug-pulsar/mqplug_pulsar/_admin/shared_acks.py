"""Waits until the broker has the acks of a member that shares a log. The client sends acks later, without waiting.

The broker takes the requests of a connection in their order, so one that it answers comes after the acks. The client
sends these from a timer. Two questions make sure that this was before: when the first one is answered, the timer has
gone off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import _pulsar

import mqplug
from mqplug import Log
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.broker_statistics import cursor_of_group
from mqplug_pulsar._cluster.connection import PulsarConnection

ACK_SEND_S = 0.12  # the native client sends acks every 0.1 s
CHECK_S = 0.02
CURSOR_WRITE_S = 0.2  # a write that takes longer was deferred: the broker makes about one a second


def ack_shared(
    connection: PulsarConnection, log: Log, group: str, native: Any, ack: Callable[[], None], deadline: Deadline
) -> None:
    """Ack, and return when the broker has the acks; with the admin interface, when it has written them."""
    before = _written(connection, log, group, deadline)
    while True:
        ack()
        sent_at, connected = time.monotonic() + ACK_SEND_S, native.is_connected()
        while connected and time.monotonic() < sent_at:
            time.sleep(CHECK_S)
            connected = native.is_connected()
        with suppress(_pulsar.Timeout, _pulsar.NotConnected, _pulsar.ConnectError):
            for _ in range(2):
                native.get_last_message_id()
                connected = connected and native.is_connected()
            if connected:
                break
        if deadline.expired:
            raise mqplug.Timeout(
                f"the broker did not confirm the acks of the group {group!r} on partition {log.partition} in time",
                topic=log.topic, fix="Commit again",
            )  # fmt: skip
        time.sleep(CHECK_S)
    end = time.monotonic() + CURSOR_WRITE_S
    while before is not None and time.monotonic() < end and _written(connection, log, group, deadline) == before:
        time.sleep(CHECK_S)


def _written(connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> tuple[int, int] | None:
    """Return where the broker last wrote the group's position; None if that cannot be read."""
    if connection.admin is None:
        return None
    try:
        stats = connection.admin.stats(connection.native_topic(log), max(0.1, deadline.remaining()))
    except (mqplug.AccessDenied, mqplug.AuthError):
        return None
    cursor = cursor_of_group(stats, group) or {}
    return int(cursor.get("cursorLedger", -1)), int(cursor.get("cursorLedgerLastEntry", -1))
