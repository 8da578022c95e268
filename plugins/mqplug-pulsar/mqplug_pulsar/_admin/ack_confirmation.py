"""Waits until the broker has received acks and has written the group's cursor.

The client library sends acks later, and waits for no answer. The broker applies them at once, but writes the group's
cursor only about once a second: unwritten acks are lost if it is killed. It would write the rest with the group's next
acks, or after a minute. A request to skip zero messages makes it write as soon as it may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import _pulsar
import attrs

import mqplug
from mqplug import Log
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.admin_interface import ADMIN_URL_FIX, AdminInterface, AdminRefused, group_path
from mqplug_pulsar._cluster.broker_statistics import AckProgress, Cursor
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format.note_texts import Entry

CURSOR_CHECK_S = 0.02  # between two checks of a cursor that is about to move
ACK_RESEND_S = 2.0  # after this time an ack counts as lost, even if no break of the connection was seen
ACK_SEND_S = 0.12  # the client library sends acks every 0.1 s
ACK_SPREAD_S = 0.08  # acks that arrived within less time were sent together
ANSWER_S = 2.0  # after this time a request counts as lost: the client library forgets one while a topic is unloaded
MAX_ACKS_TOGETHER = 999  # of one consumer; more acks are sent in several requests
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
    """Ack, and wait until the broker has written that these whole entries are acked. Return the written cursor.

    Without entries, only ack, and return the present cursor. Acks that are lost because the client's ``consumer`` loses
    its connection are sent again when it has reconnected. Set ``together`` if these are at most
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

    The broker handles the requests of a connection in order, so an answer to a later request confirms the acks. The
    client library sends acks from a timer. Two requests ensure the order: when the first one is answered, the timer
    has fired. Acks that are sent while the connection breaks are lost.
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
    """Acks in transit, which are sent again after a broken connection."""

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
        """Send the acks again if they count as lost: the connection was re-established, or too much time has passed."""
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

    The client library sends acks every 0.1 s, so acks that all arrive within less time came in one request. The broker
    has written them if it has written something since and has received no other acks.
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


WRITE_S = 0.2  # a write of a cursor takes less
WRITE_CHECK_S = 0.15  # between two requests to write
STATS_TIMEOUT_S = 0.1  # at least


@attrs.frozen
class CursorWrites:
    """A group's cursor on one log: in the broker's memory, and as last written."""

    admin: AdminInterface
    topic: str
    group: str
    log: Log
    deadline: Deadline

    @classmethod
    def of(cls, connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> CursorWrites:
        """Return the writes of a group's cursor. Needs the admin interface."""
        if connection.admin is None:
            raise mqplug.Unsupported("commit", "confirming acks needs Pulsar's admin interface", fix=ADMIN_URL_FIX)
        return cls(connection.admin, connection.native_topic(log), group, log, deadline)

    def progress(self) -> AckProgress:
        """Return the broker's progress. Wait while no broker serves the topic, which may be moving between brokers."""
        while True:
            try:
                stats = self.admin.stats(self.topic, max(STATS_TIMEOUT_S, self.deadline.remaining()))
                return AckProgress.read(stats, self.group)
            except mqplug.ConnectError as error:
                if not isinstance(error.__cause__, AdminRefused) or self.deadline.expired:
                    raise
            time.sleep(WRITE_CHECK_S)

    def wait(self, entries: Collection[Entry]) -> AckProgress | None:
        """Wait until the broker has written its present state. None means that it lost acks of these entries.

        A role that may not skip messages only waits for the duration of a write, in case the broker has begun one.
        """
        time.sleep(WRITE_S)  # a write that has already begun may be incomplete
        before = self.progress()
        while not before.left(entries):
            allowed = self._write_soon()
            now = self.progress()
            if now.left(entries):
                break
            if not allowed or now.written_after(before):
                return before
            self.check_deadline("write")
            time.sleep(WRITE_CHECK_S)
        return None

    def check_deadline(self, action: str) -> None:
        """Raise ``Timeout`` after the deadline."""
        if self.deadline.expired:
            raise mqplug.Timeout(
                f"the broker did not {action} the acks of the group {self.group!r} on partition {self.log.partition} "
                "in time",
                topic=self.log.topic, fix="Commit again",
            )  # fmt: skip

    def _write_soon(self) -> bool:
        """Make the broker write now, if the last write was long enough ago. Return whether this role may do so."""
        path = f"{group_path(self.topic, self.group)}/skip/0"
        try:
            self.admin.post(path, None, max(STATS_TIMEOUT_S, self.deadline.remaining()))
        except (mqplug.AccessDenied, mqplug.AuthError):
            return False
        except AdminRefused:
            pass  # the topic is moving between brokers, or its cursor is
        return True
