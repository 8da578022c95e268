"""What members that share a log note about their group: its last seek, and acks of batches that are acked in part.

The native client does not tell a member that the group was moved: it connects again, as after any other disturbance.
The broker forgets acks inside a batch when it unloads the topic. Both are noted in properties of the subscription.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import attrs

import mqplug
from mqplug import Log
from mqplug.spi import Deadline, Numbers
from mqplug_pulsar._admin import batch_acks, subscription_properties
from mqplug_pulsar._admin.group_lock import locked
from mqplug_pulsar._admin.subscription_properties import Properties
from mqplug_pulsar._cluster.admin_interface import AdminRefused, topic_path
from mqplug_pulsar._cluster.broker_statistics import (
    ATTEMPTS_PROPERTY,
    BATCH_ACKS_PROPERTY,
    Cursor,
    Ledgers,
    cursor_of_group,
)
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format.batch_acks import BatchAcks, Entry, in_mask

MAX_ATTEMPTS = 500  # messages that are noted
FREE_TIMEOUT_S = 2.0
SEEK_PROPERTY = "mqplug.seek"  # a property of the subscription: a new text for each seek


@attrs.frozen
class GroupNotes:
    """What is noted on one log; nothing if that cannot be read."""

    seek: str = ""
    """Tells the last seek from earlier ones."""
    acks: BatchAcks = attrs.field(factory=BatchAcks)
    cursor: Cursor | None = None
    """Where the group stood after that was read."""
    attempts: Mapping[Numbers, int] = attrs.field(factory=dict)
    """How often messages were handed out that members had for too long."""

    def is_acked(self, place: Numbers) -> bool:
        """Return whether a message was acked by then, alone or with its entry."""
        whole = self.cursor is not None and self.cursor.has_acked((place[0], place[1]))
        return whole or self.is_noted(place)

    def is_noted(self, place: Numbers) -> bool:
        """Return whether the ack of a message of a batch is noted."""
        return in_mask(self.acks.masks, place)


def read(connection: PulsarConnection, log: Log, group: str, timeout: float) -> GroupNotes:
    """Return what is noted. Acks that are not true any more, because the group was moved, are left out."""
    if connection.admin is None:
        return GroupNotes()
    deadline = Deadline(timeout)
    try:
        there = subscription_properties.read(connection, connection.admin, log, group, timeout)
        acks = BatchAcks.parse(there.get(BATCH_ACKS_PROPERTY, ""))
        cursor = _cursor(connection, log, group, deadline)  # later than the acks, for it moves on while others ack
    except (mqplug.AccessDenied, mqplug.AuthError):
        return GroupNotes()
    valid = cursor is not None and acks.mark <= cursor.mark
    attempts = _attempts(there.get(ATTEMPTS_PROPERTY, ""))
    return GroupNotes(there.get(SEEK_PROPERTY, ""), acks if valid else BatchAcks(), cursor, attempts)


def last_seek(connection: PulsarConnection, log: Log, group: str, timeout: float) -> str:
    """Return what tells the last seek from earlier ones; always the same text if that cannot be read."""
    if connection.admin is not None:
        with suppress(mqplug.AccessDenied, mqplug.AuthError):
            there = subscription_properties.read(connection, connection.admin, log, group, timeout)
            return there.get(SEEK_PROPERTY, "")
    return ""


def note_attempts(
    connection: PulsarConnection, log: Log, group: str, attempts: Mapping[Numbers, int], deadline: Deadline
) -> None:
    """Note how often messages were handed out: the broker forgets that when the group's only member disconnects."""
    admin = connection.admin
    if admin is None or not attempts:
        return

    def edit(there: Properties) -> Properties:
        known = {**_attempts(there.get(ATTEMPTS_PROPERTY, "")), **attempts}
        text = ";".join(f"{':'.join(map(str, at))}={known[at]}" for at in sorted(known)[-MAX_ATTEMPTS:])
        return {**there, ATTEMPTS_PROPERTY: text}

    with suppress(mqplug.Error), locked(connection, log, group, deadline):
        subscription_properties.change(connection, admin, log, group, edit, max(0.1, deadline.remaining()))


def _attempts(text: str) -> dict[Numbers, int]:
    found: dict[Numbers, int] = {}
    for each in filter(None, text.split(";")):
        place, _, count = each.partition("=")
        found[tuple(map(int, place.split(":")))] = int(count)
    return found


def is_free(connection: PulsarConnection, log: Log, group: str, member: str, deadline: Deadline) -> bool:
    """Return whether all members but this one have no message of a log; False if that cannot be read."""
    there = _subscription(connection, log, group, deadline.remaining(FREE_TIMEOUT_S))
    members = () if there is None else there.get("consumers", ())
    return there is not None and not any(
        each["unackedMessages"] for each in members if each["consumerName"] != member
    )  # fmt: skip


def may_be_stuck(connection: PulsarConnection, log: Log, group: str, timeout: float) -> bool:
    """Return whether a log has messages that no member has, and no key waits for acks; True if that cannot be read."""
    there = _subscription(connection, log, group, timeout)
    if not there:
        return there is None
    members = there["consumers"]
    held = sum(-(-each["unackedMessages"] // max(1, each["avgMessagesPerEntry"])) for each in members)  # in entries
    return there["msgBacklog"] > held and not any(each.get("drainingHashesCount") for each in members)


def _subscription(connection: PulsarConnection, log: Log, group: str, timeout: float) -> Mapping[str, Any] | None:
    """Return what the broker tells of a group, nothing if there is no such group; None if that cannot be read."""
    if connection.admin is None:
        return None
    try:
        stats = connection.admin.get(f"{topic_path(connection.native_topic(log))}/stats", max(0.1, timeout))
    except (mqplug.Error, AdminRefused):
        return None
    found: Mapping[str, Any] = stats["subscriptions"].get(group, {})
    return found


def add_acks(
    connection: PulsarConnection, log: Log, group: str, masks: Mapping[Entry, int], seek: str, deadline: Deadline
) -> None:
    """Note acks inside batches, unless the group was moved since this seek."""
    if connection.admin is None:
        return
    with suppress(mqplug.AccessDenied, mqplug.AuthError), locked(connection, log, group, deadline):
        cursor = _cursor(connection, log, group, deadline)
        if cursor is not None and last_seek(connection, log, group, max(0.1, deadline.remaining())) == seek:
            batch_acks.add(connection, group, log, masks, cursor.mark, max(0.1, deadline.remaining()))


def _cursor(connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> Cursor | None:
    """Return where the group stands; None if there is no such group."""
    if connection.admin is None:
        return None
    stats = connection.admin.stats(connection.native_topic(log), max(0.1, deadline.remaining()))
    cursor = cursor_of_group(stats, group)
    return None if cursor is None else Cursor.read(cursor, {}, Ledgers.read(stats))
