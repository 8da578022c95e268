"""Waits until the broker has acks: the native client sends them later, and waits for no answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import _pulsar

import mqplug
from mqplug import Log
from mqplug.spi import Deadline
from mqplug_pulsar._admin.cursor_writes import CursorWrites
from mqplug_pulsar._cluster.broker_statistics import AckProgress, Cursor
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format.batch_acks import Entry

CURSOR_CHECK_S = 0.02  # between two checks of a cursor that is about to move
ACK_RESEND_S = 2.0  # then an ack counts as lost, even if the connection was never seen broken
ACK_SEND_S = 0.12  # the native client sends acks every 0.1 s
ACK_SPREAD_S = 0.08  # so those that arrived within less were sent together
ANSWER_S = 2.0  # then a question counts as lost: the native client forgets one while a topic is unloaded
MAX_ACKS_TOGETHER = 999  # of one consumer; more are sent in several requests
CONNECTION_CHECK_S = 0.005


def ack_and_wait(
    connection: PulsarConnection,
    log: Log,
    group: str,
    entries: Collection[Entry],
    ack: Callable[[], None],
    deadline: Deadline,
    *,
    consumer: Any = None,
    together: bool = False,
) -> Cursor | None:
    """Ack, and wait until the broker has written that these entries are acked whole. Return the cursor as written.

    Without entries, only ack, and return the cursor as it is. Acks that are lost when the native ``consumer`` loses its
    connection are sent again when it has one. Say ``together`` if these are at most
    ``MAX_ACKS_TOGETHER`` acks: if the broker gets them in one request and writes at once, one write is enough. Needs
    the admin interface.
    """
    writes = CursorWrites.of(connection, log, group, deadline)
    before = writes.progress()
    sending = _Sending(consumer, ack)
    if not entries:
        return before.cursor
    written = _arrive_together(writes, sending, before, entries) if together else None
    while written is None:
        _arrive(writes, sending, entries)
        written = writes.wait(entries)
    return written.cursor


def ack_and_ask(connection: PulsarConnection, consumer: Any, ack: Callable[[], None], deadline: Deadline) -> None:
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
        with suppress(_pulsar.PulsarException, mqplug.Timeout):
            for _ in range(2):
                connection.last_message(consumer, deadline.remaining(ANSWER_S))
                connected = connected and consumer.is_connected()
            if connected:
                return
        if deadline.expired:
            raise mqplug.Timeout("the broker did not answer, so it may not have the acks", fix="Commit again")
        time.sleep(CURSOR_CHECK_S)


class _Sending:
    """Acks that the native client sends, and again after a connection broke."""

    def __init__(self, consumer: Any, ack: Callable[[], None]) -> None:
        self._consumer = consumer
        self._ack = ack
        self.began = time.monotonic()
        self.times = 0
        self.send_again()

    def send_again(self) -> None:
        """Send the acks."""
        self.times += 1
        self._was_connected = self._is_connected()
        self._ack()
        self._resend_at = time.monotonic() + ACK_RESEND_S

    def send_lost(self) -> None:
        """Send the acks again if they are lost: the connection broke and is whole again, or it has been too long."""
        connected = self._is_connected()
        if connected and (not self._was_connected or time.monotonic() > self._resend_at):
            self.send_again()
        self._was_connected = connected

    def _is_connected(self) -> bool:
        return self._consumer is None or bool(self._consumer.is_connected())


def _arrive(writes: CursorWrites, sending: _Sending, entries: Collection[Entry]) -> None:
    """Wait until the broker has the acks."""
    left = entries
    while left := writes.progress().left(left):
        writes.check_deadline("confirm")
        sending.send_lost()
        time.sleep(CURSOR_CHECK_S)


def _arrive_together(
    writes: CursorWrites, sending: _Sending, before: AckProgress, entries: Collection[Entry]
) -> AckProgress | None:
    """Wait until the broker has the acks. Return its progress if it got them in one request and has written them.

    The client sends acks every 0.1 s, so they came in one request if they all arrived within less. The broker has
    written them if it has written something since, and got nothing else meanwhile.
    """
    left = missing = before.left(entries)
    none_until = sending.began
    while True:
        began = time.monotonic()
        now = writes.progress()
        left = now.left(left)
        if not left:
            break
        none_until = began if left == missing else none_until
        writes.check_deadline("confirm")
        sending.send_lost()
        time.sleep(CURSOR_CHECK_S)
    together = sending.times == 1 and time.monotonic() < none_until + ACK_SPREAD_S
    alone = now.consumed - before.consumed == len(missing) > 0
    return now if together and alone and now.written_after(before) else None
