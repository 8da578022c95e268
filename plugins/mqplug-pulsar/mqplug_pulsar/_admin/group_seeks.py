"""Seeks of a group whose members share its logs: each is noted, so that members forget what they had before.

The native client does not tell a member that the group was moved: it connects again, as after any other disturbance.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from uuid import uuid4

import mqplug
from mqplug import Log, Position
from mqplug.spi import Deadline
from mqplug_pulsar._admin.group_cursors import acked_before
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused, error_from_refusal, group_path
from mqplug_pulsar._cluster.broker_statistics import BATCH_ACKS_PROPERTY
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format import message_ids

SEEK_PROPERTY = "mqplug.seek"  # a property of the subscription: a new text for each seek
RETRY_S = 0.05


def last_seek(connection: PulsarConnection, log: Log, group: str, timeout: float) -> str:
    """Return what tells the last seek from earlier ones; always the same text if that cannot be read."""
    if connection.admin is None:
        return ""
    try:
        return str(_properties(connection.admin, _path(connection, log, group), timeout).get(SEEK_PROPERTY, ""))
    except AdminRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:  # there is no such group yet
            return ""
        raise error_from_refusal(error, log.topic) from error
    except (mqplug.AccessDenied, mqplug.AuthError):
        return ""


def seek_together(connection: PulsarConnection, group: str, position: Position, timeout: float) -> None:
    """Move the group's position in a log, with members. They are disconnected, and all that they had is free."""
    if connection.admin is None:
        raise mqplug.Unsupported(
            "shared", "a seek of members that share a log needs Pulsar's admin interface", fix="Say admin_url="
        )
    deadline = Deadline(timeout)
    _note(connection.admin, _path(connection, position.log, group), position, deadline)
    ledger, entry, index = message_ids.start_of(position.coordinates)
    there = {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": index}
    path = f"{group_path(connection.native_topic(position.log), group)}/resetcursor"
    try:
        connection.admin.post(path, there, deadline.remaining())
    except AdminRefused as error:
        raise error_from_refusal(error, position.log.topic) from error


def _note(admin: AdminInterface, path: str, position: Position, deadline: Deadline) -> None:
    """Note a new seek, and a position inside a batch, which the broker keeps but does not report."""
    while True:
        try:
            properties = {**_properties(admin, path, deadline.remaining()), SEEK_PROPERTY: uuid4().hex[:16]}
            properties.pop(BATCH_ACKS_PROPERTY, None)
            if position.coordinates[2] > 0:
                properties[BATCH_ACKS_PROPERTY] = acked_before(position).text()
            admin.put(path, properties, deadline.remaining())
        except AdminRefused as error:
            if error.status < HTTPStatus.INTERNAL_SERVER_ERROR or deadline.expired:
                raise error_from_refusal(error, position.log.topic) from error
        else:
            return
        time.sleep(RETRY_S)  # others write properties, too


def _properties(admin: AdminInterface, path: str, timeout: float) -> Mapping[str, str]:
    found: Mapping[str, str] | None = admin.get(path, timeout)
    return found or {}


def _path(connection: PulsarConnection, log: Log, group: str) -> str:
    return f"{group_path(connection.native_topic(log), group)}/properties"
