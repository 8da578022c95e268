"""Waits until the broker has acks: the native client sends them later, and waits for no answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

import _pulsar

import mqplug
from mqplug import Log
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.broker_statistics import AckProgress, Cursor
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format.batch_acks import Entry

CURSOR_CHECK_S = 0.02  # between two checks of a cursor that is about to move
ACK_RESEND_S = 2.0  # then an ack counts as lost, with a broken connection
ACK_SEND_S = 0.12  # the native client sends acks every 0.1 s
CONNECTION_CHECK_S = 0.005
CURSOR_WRITE_S = 0.2  # a write that takes longer was deferred: the broker makes about one a second


def ack_and_wait(
    connection: PulsarConnection,
    log: Log,
    group: str,
    entries: Collection[Entry],
    ack: Callable[[], None],
    deadline: Deadline,
) -> Cursor | None:
    """Ack, and wait until the broker has written that these entries are acked whole. Return the cursor before."""
    look = partial(_acks, connection, log, group, deadline)
    before = look()
    ack()
    resend_at = time.monotonic() + ACK_RESEND_S
    left, arrived = before.left(entries), None
    while left or arrived is not None:
        acks, now = look(), time.monotonic()
        left = acks.left(left)
        if not left:
            arrived = arrived or now
            if acks.written_after(before) or now > arrived + CURSOR_WRITE_S:
                break
        if deadline.expired:
            raise mqplug.Timeout(
                f"the broker did not confirm the acks of the group {group!r} on partition {log.partition} in time",
                topic=log.topic, fix="Commit again",
            )  # fmt: skip
        if left and now > resend_at:
            ack()
            resend_at = now + ACK_RESEND_S
        time.sleep(CURSOR_CHECK_S)
    return before.cursor


def ack_and_ask(consumer: Any, ack: Callable[[], None], deadline: Deadline) -> None:
    """Ack, and wait until the broker has received it, without the admin interface.

    The broker takes the requests of a connection in their order, so one that it answers comes after the acks. The
    client sends these from a timer. Two questions make sure that this was before: when the first one is answered, the
    timer has gone off. Acks that are sent while the connection breaks are lost.
    """
    while True:
        ack()
        sent_at, connected = time.monotonic() + ACK_SEND_S, consumer.is_connected()
        while connected and time.monotonic() < sent_at:
            time.sleep(CONNECTION_CHECK_S)
            connected = consumer.is_connected()
        with suppress(_pulsar.PulsarException):
            for _ in range(2):
                consumer.get_last_message_id()
                connected = connected and consumer.is_connected()
            if connected:
                return
        if deadline.expired:
            raise mqplug.Timeout("the broker did not answer, so it may not have the acks", fix="Commit again")
        time.sleep(CURSOR_CHECK_S)


def _acks(connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> AckProgress:
    """Return how far the broker has processed the group's acks."""
    if connection.admin is None:
        return AckProgress(None, (-1, -1))
    left = max(0.1, deadline.remaining())
    return AckProgress.read(connection.admin.stats(connection.native_topic(log), left), group)
