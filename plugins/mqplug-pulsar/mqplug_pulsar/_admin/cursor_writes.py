"""Has the broker write down where a group stands.

The broker applies acks at once, but writes down the group's cursor only about once a second: what it has not written is
lost if it is killed. It would write the rest with the group's next acks, or after a minute. Being asked to skip no
messages, it writes as soon as it may.
"""

from __future__ import annotations

import time
from collections.abc import Collection

import attrs

import mqplug
from mqplug import Log
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.admin_interface import ADMIN_URL_FIX, AdminInterface, AdminRefused, group_path
from mqplug_pulsar._cluster.broker_statistics import AckProgress
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format.batch_acks import Entry

WRITE_S = 0.2  # a write of a cursor takes less
WRITE_CHECK_S = 0.15  # between two requests to write
STATS_TIMEOUT_S = 0.1  # at least


@attrs.frozen
class CursorWrites:
    """A group's cursor on one log, as the broker has it in memory, and what it has written of it."""

    admin: AdminInterface
    topic: str
    group: str
    log: Log
    deadline: Deadline

    @classmethod
    def of(cls, connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> CursorWrites:
        """Return those of a group. Needs the admin interface."""
        if connection.admin is None:
            raise mqplug.Unsupported("commit", "the admin interface confirms acks", fix=ADMIN_URL_FIX)
        return cls(connection.admin, connection.native_topic(log), group, log, deadline)

    def progress(self) -> AckProgress:
        """Return how far the broker is, once one serves the topic: it may be moving between brokers."""
        while True:
            try:
                stats = self.admin.stats(self.topic, max(STATS_TIMEOUT_S, self.deadline.remaining()))
                return AckProgress.read(stats, self.group)
            except mqplug.ConnectError as error:
                if not isinstance(error.__cause__, AdminRefused) or self.deadline.expired:
                    raise
            time.sleep(WRITE_CHECK_S)

    def wait(self, entries: Collection[Entry]) -> AckProgress | None:
        """Wait until the broker has written all that it has now. None means that it lost acks of these entries.

        A role that may not skip messages waits as long as a write takes, if the broker has begun one.
        """
        time.sleep(WRITE_S)  # a write that is under way may not have everything
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
        """Raise ``Timeout`` if it is too late."""
        if self.deadline.expired:
            raise mqplug.Timeout(
                f"the broker did not {action} the acks of the group {self.group!r} on partition {self.log.partition} "
                "in time",
                topic=self.log.topic, fix="Commit again",
            )  # fmt: skip

    def _write_soon(self) -> bool:
        """Have the broker write now, if the last write was long enough ago. Return whether this is allowed."""
        path = f"{group_path(self.topic, self.group)}/skip/0"
        try:
            self.admin.post(path, None, max(STATS_TIMEOUT_S, self.deadline.remaining()))
        except (mqplug.AccessDenied, mqplug.AuthError):
            return False
        except AdminRefused:
            pass  # the topic is moving between brokers, or its cursor is
        return True
