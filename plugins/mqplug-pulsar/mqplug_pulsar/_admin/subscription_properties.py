"""Reads and changes the properties of a subscription, which the broker stores with it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

import mqplug
from mqplug import Log
from mqplug.spi import Deadline
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused, error_from_refusal, group_path
from mqplug_pulsar._cluster.connection import PulsarConnection

Properties = Mapping[str, str]
Edit = Callable[[Properties], Properties]

ABSENT = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}  # the group was deleted, or the broker is older
CONFLICT_PAUSE_S = 0.1  # at most


def read(connection: PulsarConnection, admin: AdminInterface, log: Log, group: str, timeout: float) -> Properties:
    """Return the properties; none if there is no such subscription, or no such request."""
    path = f"{group_path(connection.native_topic(log), group)}/properties"
    try:
        found: Properties = admin.get(path, timeout) or {}
    except AdminRefused as error:
        if error.status not in ABSENT:  # else a change would remove what could not be read
            raise error_from_refusal(error, log.topic) from error
        return {}
    return found


def change(
    connection: PulsarConnection,
    admin: AdminInterface,
    log: Log,
    group: str,
    edit: Edit,
    timeout: float,
) -> None:
    """Change the properties, until ``edit`` finds nothing to change: another member may change them meanwhile."""
    deadline = Deadline(timeout)
    path = f"{group_path(connection.native_topic(log), group)}/properties"
    while True:
        there = read(connection, admin, log, group, max(0.05, deadline.remaining()))
        wanted = edit(there)
        if wanted == there:
            return
        if deadline.expired:
            raise mqplug.Timeout(
                f"the properties of the group {group!r} could not be changed in time: other members change them",
                topic=log.topic, fix="Try again",
            )  # fmt: skip
        try:
            admin.put(path, wanted, max(0.05, deadline.remaining()))
        except AdminRefused as error:
            if not _changed_meanwhile(error):
                raise error_from_refusal(error, log.topic) from error
            time.sleep(random.uniform(0, CONFLICT_PAUSE_S))  # noqa: S311  # no secret


def _changed_meanwhile(error: AdminRefused) -> bool:
    """Return whether the broker wrote the subscription for another request, or moved its cursor, at the same time."""
    return error.status in {HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.CONFLICT} and "BadVersion" in error.reason
