"""The cursors of groups: where they stand, and how they are moved, with members or without.

Through the admin interface a move outlives a kill of the broker. When a broker moves a cursor, it first writes down the
new position, together with the acks after it that it is about to forget. If it is killed then, it begins with these
acks, and skips their messages. So it is asked twice: when it writes the second time, it has forgotten them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import pulsar

from mqplug import Log, Position
from mqplug.spi import Deadline, GroupPosition, Numbers
from mqplug.spi.groups import tidy
from mqplug_pulsar._admin.group_notes import Properties, change_properties, locked, read_properties
from mqplug_pulsar._cluster.admin_interface import (
    AdminInterface,
    AdminRefused,
    error_from_refusal,
    group_path,
)
from mqplug_pulsar._cluster.broker_statistics import (
    Cursor,
    Ledgers,
    cursor_of_group,
)
from mqplug_pulsar._cluster.client_calls import retry_while_cursor_moves
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.note_texts import (
    BATCH_ACKS_PROPERTY,
    BEYOND_PROPERTY,
    POSITION_PROPERTIES,
    SEEK_PROPERTY,
    BatchAcks,
    Skipped,
    skipped_to_text,
)

END_OF_LOG = 2**63 - 1  # as ledger and entry: behind all messages


def cursors(connection: PulsarConnection, logs: Sequence[Log], group: str, timeout: float) -> dict[Log, Cursor]:
    """Return the group's cursors, of those logs where it has one. Needs the admin interface."""
    found = connection.calls.each({log: partial(cursor, connection, log, group, timeout) for log in logs}, timeout)
    return {log: each for log, each in found.items() if each is not None}


def cursor(connection: PulsarConnection, log: Log, group: str, timeout: float) -> Cursor | None:
    """Return the group's cursor on one log, or None."""
    admin = connection.required_admin("groups", "reading the stored position of a group")
    topic = connection.native_topic(log)
    stats = admin.stats(topic, timeout)
    found = cursor_of_group(stats, group)
    if found is None:
        return None
    properties = read_properties(connection, admin, log, group, timeout)
    return Cursor.read(found, properties, Ledgers.read(stats))


def subscription_positions(
    connection: PulsarConnection, logs: Sequence[Log], group: str, timeout: float
) -> dict[Log, GroupPosition]:
    """Return the stored positions of a group, exact to the entry."""
    return {log: _group_position(log, each) for log, each in cursors(connection, logs, group, timeout).items()}


def move_cursor(
    connection: PulsarConnection, consumer: Any, group: str, position: Position, timeout: float
) -> Skipped | None:
    """Move the group's stored position and drop acks behind it; without the admin interface exact to the entry.

    The broker moves it to the end at most. Return what is to be skipped then, up to a position beyond the end.
    """
    deadline = Deadline(timeout)
    ledger, entry, index = message_ids.start_of(position.coordinates)
    if consumer is not None:
        last = connection.last_message(consumer, timeout)
    else:
        last = connection.last_id(connection.native_topic(position.log), timeout)
    end = message_ids.LOG_BEGIN if last is None else message_ids.position_behind(*last)
    skipped = (end, position.coordinates) if position.coordinates > end else None
    if connection.admin is None:
        for _ in range(MOVES):
            retry_while_cursor_moves(partial(consumer.seek, pulsar.MessageId(-1, ledger, entry, index)), deadline)
        return skipped
    _note(connection, group, position.log, {}, deadline)  # what was noted is not true any more
    reset_cursor(connection, connection.admin, position.log, group, position.coordinates, deadline)
    note_position(connection, group, position, deadline.remaining(), skipped)
    return skipped


def note_position(
    connection: PulsarConnection, group: str, position: Position, timeout: float, skipped: Skipped | None = None
) -> None:
    """Note a position inside a batch, which the broker keeps but does not report, or one beyond the end."""
    deadline = Deadline(timeout)
    if skipped is not None:
        noted = {BEYOND_PROPERTY: skipped_to_text(skipped)}
        _note(connection, group, position.log, noted, deadline)
        return
    acks = acked_before(position)
    there = cursor(connection, position.log, group, timeout) if acks.masks else None
    if there is not None:
        noted = {BATCH_ACKS_PROPERTY: acks.behind(there.mark).text()}
        _note(connection, group, position.log, noted, deadline)


def acked_before(position: Position) -> BatchAcks:
    """Return the acks that a position inside a batch implies."""
    ledger, entry, index = position.coordinates[:3]
    return BatchAcks({(ledger, entry): (1 << index) - 1} if index > 0 else {})


def _note(connection: PulsarConnection, group: str, log: Log, noted: Properties, deadline: Deadline) -> None:
    """Replace what is noted about a group's position."""
    if connection.admin is None:
        return

    def edit(there: Properties) -> Properties:
        return {name: text for name, text in there.items() if name not in POSITION_PROPERTIES} | dict(noted)

    left = max(0.05, deadline.remaining())
    change_properties(connection, connection.admin, log, group, edit, left)


def _group_position(log: Log, cursor: Cursor) -> GroupPosition:
    entries = [((*first, -1), (*last, END_OF_LOG)) for first, last in cursor.ranges]
    return tidy(GroupPosition(Position(log, cursor.position), tuple(sorted([*entries, *cursor.acks.ranges()]))))


MOVES = 2


def reset_cursor(
    connection: PulsarConnection, admin: AdminInterface, log: Log, group: str, to: Numbers, deadline: Deadline
) -> None:
    """Move the cursor to a position, which may lie inside a batch. Members are disconnected."""
    path = f"{group_path(connection.native_topic(log), group)}/resetcursor"
    body = place_for_admin(*message_ids.start_of(to))
    for _ in range(MOVES):
        try:
            admin.post(path, body, max(0.05, deadline.remaining()))
        except AdminRefused as error:
            raise error_from_refusal(error, log.topic) from error


def place_for_admin(ledger: int, entry: int, index: int) -> dict[str, int]:
    """Return a position as the admin interface takes it."""
    return {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": index}


def seek_together(connection: PulsarConnection, group: str, position: Position, timeout: float) -> None:
    """Move the group's position in a log, with members. They are disconnected, and all that they had is free."""
    admin = connection.required_admin("shared", "a seek of members that share a log")
    deadline, log = Deadline(timeout), position.log
    noted = {SEEK_PROPERTY: uuid4().hex[:16]}
    if position.coordinates[2] > 0:  # the broker keeps it, but does not report it
        noted[BATCH_ACKS_PROPERTY] = acked_before(position).text()

    with locked(connection, log, group, deadline):
        _note(connection, group, log, noted, deadline)
        reset_cursor(connection, admin, log, group, position.coordinates, deadline)
