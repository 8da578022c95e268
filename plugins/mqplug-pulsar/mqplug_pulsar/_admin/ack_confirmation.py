"""Waits until the broker has acks: the native client sends them later, and waits for no answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial

import mqplug
from mqplug import Log
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.broker_statistics import AckProgress, Cursor
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format.batch_acks import Entry

CURSOR_CHECK_S = 0.02  # between two checks of a cursor that is about to move
ACK_RESEND_S = 2.0  # then an ack counts as lost, with a broken connection
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


def _acks(connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> AckProgress:
    """Return how far the broker has processed the group's acks."""
    if connection.admin is None:
        return AckProgress(None, (-1, -1))
    left = max(0.1, deadline.remaining())
    return AckProgress.read(connection.admin.stats(connection.native_topic(log), left), group)
