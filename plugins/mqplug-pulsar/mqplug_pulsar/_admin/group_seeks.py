"""Seeks of a group whose members share its logs: each is noted, so that members forget what they had before."""

from __future__ import annotations

from uuid import uuid4

import mqplug
from mqplug import Position
from mqplug.spi import Deadline
from mqplug_pulsar._admin import subscription_properties
from mqplug_pulsar._admin.cursor_resets import reset_cursor
from mqplug_pulsar._admin.group_cursors import NOTED_PROPERTIES, acked_before
from mqplug_pulsar._admin.group_lock import locked
from mqplug_pulsar._admin.group_notes import SEEK_PROPERTY
from mqplug_pulsar._admin.subscription_properties import Properties
from mqplug_pulsar._cluster.admin_interface import ADMIN_URL_FIX
from mqplug_pulsar._cluster.broker_statistics import BATCH_ACKS_PROPERTY
from mqplug_pulsar._cluster.connection import PulsarConnection


def seek_together(connection: PulsarConnection, group: str, position: Position, timeout: float) -> None:
    """Move the group's position in a log, with members. They are disconnected, and all that they had is free."""
    if connection.admin is None:
        raise mqplug.Unsupported(
            "shared", "a seek of members that share a log needs Pulsar's admin interface", fix=ADMIN_URL_FIX
        )
    deadline, log = Deadline(timeout), position.log
    noted = {SEEK_PROPERTY: uuid4().hex[:16]}
    if position.coordinates[2] > 0:  # the broker keeps it, but does not report it
        noted[BATCH_ACKS_PROPERTY] = acked_before(position).text()

    def edit(there: Properties) -> Properties:
        return {name: text for name, text in there.items() if name not in NOTED_PROPERTIES} | noted

    with locked(connection, log, group, deadline):
        left = max(0.05, deadline.remaining())
        subscription_properties.change(connection, connection.admin, log, group, edit, left)
        reset_cursor(connection, connection.admin, log, group, position.coordinates, deadline)
