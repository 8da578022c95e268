"""Moves a group's cursor through the admin interface, so that the move outlives a kill of the broker.

When a broker moves a cursor, it first writes down the new position, together with the acks behind it that it is about
to forget. If it is killed then, it begins with these acks, and skips their messages. So it is asked twice: when it
writes the second time, it has forgotten them.
"""

from __future__ import annotations

from mqplug import Log
from mqplug.spi import Deadline, Numbers
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused, error_from_refusal, group_path
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format import message_ids

TIMES = 2


def reset_cursor(
    connection: PulsarConnection, admin: AdminInterface, log: Log, group: str, to: Numbers, deadline: Deadline
) -> None:
    """Move the cursor to a position, which may lie inside a batch. Members are disconnected."""
    path = f"{group_path(connection.native_topic(log), group)}/resetcursor"
    body = place(*message_ids.start_of(to))
    for _ in range(TIMES):
        try:
            admin.post(path, body, max(0.05, deadline.remaining()))
        except AdminRefused as error:
            raise error_from_refusal(error, log.topic) from error


def place(ledger: int, entry: int, index: int) -> dict[str, int]:
    """Return a position as the admin interface takes it."""
    return {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": index}
