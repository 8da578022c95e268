"""Notes about a group on one log, in properties of its subscription, which the broker stores with it.

The broker forgets acks inside a batch when it unloads the topic, and writes them only together with later ones. It
keeps no position beyond the end of a log. The client library does not report to a member that shares a log that the
group was moved: it reconnects, as after any other disturbance. The notes hold all of this, in the form of
``note_texts``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

import _pulsar
import attrs
import pulsar

import mqplug
from mqplug import Log, Position
from mqplug.spi import Deadline, Numbers
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused, error_from_refusal, group_path
from mqplug_pulsar._cluster.broker_statistics import Cursor, Ledgers, cursor_of_group
from mqplug_pulsar._cluster.connection import PROBE_NAME, UNSUBSCRIBE_S, PulsarConnection
from mqplug_pulsar._cluster.errors import error_from_exception
from mqplug_pulsar._format.note_texts import (
    ATTEMPTS_PROPERTY,
    BATCH_ACKS_PROPERTY,
    BEYOND_PROPERTY,
    POSITION_PROPERTIES,
    SEEK_PROPERTY,
    BatchAcks,
    Entry,
    Skipped,
    attempts_from_text,
    attempts_to_text,
    in_mask,
    skipped_to_text,
)

Properties = Mapping[str, str]
Edit = Callable[[Properties], Properties]

ABSENT = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}  # the group was deleted, or the broker is older
CONFLICT_PAUSE_S = 0.1  # at most


def read_properties(
    connection: PulsarConnection, admin: AdminInterface, log: Log, group: str, timeout: float
) -> Properties:
    """Return the properties; none if the subscription does not exist, or the broker does not support the request."""
    path = f"{group_path(connection.native_topic(log), group)}/properties"
    try:
        found: Properties = admin.get(path, timeout) or {}
    except AdminRefused as error:
        if error.status not in ABSENT:  # otherwise a change would remove properties that could not be read
            raise error_from_refusal(error, log.topic) from error
        return {}
    return found


def change_properties(
    connection: PulsarConnection,
    admin: AdminInterface,
    log: Log,
    group: str,
    edit: Edit,
    timeout: float,
) -> None:
    """Change the properties until ``edit`` finds nothing to change: other members may change them concurrently."""
    deadline = Deadline(timeout)
    path = f"{group_path(connection.native_topic(log), group)}/properties"
    while True:
        there = read_properties(connection, admin, log, group, max(0.05, deadline.remaining()))
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
    """Return whether the broker was writing the subscription for another request, or moving its cursor."""
    return error.status in {HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.CONFLICT} and "BadVersion" in error.reason


LOCK_RETRY_S = 0.05  # at most


@contextmanager
def locked(connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> Iterator[None]:
    """Hold a lock on this log among all members of this group, in all processes.

    The broker replaces the properties of a subscription as a whole, and compares no versions: of two concurrent
    changes, one would overwrite the other even after that one was verified. The lock is an exclusive consumer of a
    separate subscription: the broker gives it to one client at a time, and takes it from a process that dies.
    """
    held = _take_lock(connection, log, group, deadline)
    try:
        yield
    finally:
        try:
            connection.unsubscribe(held, max(UNSUBSCRIBE_S, deadline.remaining()))
        except (_pulsar.PulsarException, mqplug.Error):  # the topic was unloaded: the next member reuses it
            with suppress(_pulsar.PulsarException):
                held.close()


def _take_lock(connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> Any:
    while True:
        try:
            return connection.opener.consumer(
                connection.native_topic(log),
                f"{PROBE_NAME}-lock-{group}",
                consumer_type=pulsar.ConsumerType.Exclusive,
                receiver_queue_size=0,
                initial_position=pulsar.InitialPosition.Latest,
            )
        except _pulsar.PulsarException as error:  # another member holds it, or is just releasing it
            translated = error_from_exception(error, log.topic)
            if isinstance(translated, mqplug.AccessDenied | mqplug.AuthError | mqplug.TopicNotFound):
                raise translated from error
            if deadline.expired:
                raise mqplug.Timeout(
                    f"the notes about the group {group!r} could not be changed in time: other members change them",
                    topic=log.topic, fix="Try again",
                ) from error  # fmt: skip
        time.sleep(random.uniform(0, LOCK_RETRY_S))  # noqa: S311  # no secret


def add_batch_acks(
    connection: PulsarConnection, group: str, log: Log, masks: Mapping[Entry, int], mark: Entry, timeout: float
) -> None:
    """Add acks to the stored ones. The group has acked everything up to the entry ``mark``."""

    def edit(there: Properties) -> Properties:
        stored = BatchAcks.parse(there.get(BATCH_ACKS_PROPERTY, ""))
        if stored.mark > mark:
            stored = BatchAcks()  # written before the group was moved back
        return {**there, BATCH_ACKS_PROPERTY: stored.joined(masks).after(mark).text()}

    if connection.admin is not None:
        with suppress(mqplug.AccessDenied, mqplug.AuthError):  # then ``ack_granularity`` is ``entry``
            change_properties(connection, connection.admin, log, group, edit, timeout)


def note_position(
    connection: PulsarConnection, group: str, position: Position, timeout: float, skipped: Skipped | None = None
) -> None:
    """Note a position beyond the end, or one inside a batch, which the broker keeps but does not report."""
    deadline = Deadline(timeout)
    if skipped is not None:
        noted = {BEYOND_PROPERTY: skipped_to_text(skipped)}
        replace_notes(connection, group, position.log, noted, deadline)
        return
    acks = acked_before(position)
    there = _cursor(connection, position.log, group, deadline) if acks.masks else None
    if there is not None:
        noted = {BATCH_ACKS_PROPERTY: acks.after(there.mark).text()}
        replace_notes(connection, group, position.log, noted, deadline)


def acked_before(position: Position) -> BatchAcks:
    """Return the acks that a position inside a batch implies."""
    ledger, entry, index = position.coordinates[:3]
    return BatchAcks({(ledger, entry): (1 << index) - 1} if index > 0 else {})


def replace_notes(connection: PulsarConnection, group: str, log: Log, noted: Properties, deadline: Deadline) -> None:
    """Replace the notes about a group's position."""
    if connection.admin is None:
        return

    def edit(there: Properties) -> Properties:
        return {name: text for name, text in there.items() if name not in POSITION_PROPERTIES} | dict(noted)

    left = max(0.05, deadline.remaining())
    change_properties(connection, connection.admin, log, group, edit, left)


@attrs.frozen
class GroupNotes:
    """The notes of a group on one log; empty if they cannot be read."""

    seek: str = ""
    """A text that differs for each seek."""
    acks: BatchAcks = attrs.field(factory=BatchAcks)
    cursor: Cursor | None = None
    """The group's cursor, read after the acks."""
    attempts: Mapping[Numbers, int] = attrs.field(factory=dict)
    """How often messages with overdue acks were handed out."""

    def is_acked(self, place: Numbers) -> bool:
        """Return whether a message was acked by then, by itself or with its entry."""
        whole = self.cursor is not None and self.cursor.has_acked((place[0], place[1]))
        return whole or self.is_noted(place)

    def is_noted(self, place: Numbers) -> bool:
        """Return whether the notes hold the ack of this message of a batch."""
        return in_mask(self.acks.masks, place)


def read(connection: PulsarConnection, log: Log, group: str, timeout: float) -> GroupNotes:
    """Return the notes, without acks that are outdated because the group was moved."""
    if connection.admin is None:
        return GroupNotes()
    deadline = Deadline(timeout)
    try:
        there = read_properties(connection, connection.admin, log, group, timeout)
        acks = BatchAcks.parse(there.get(BATCH_ACKS_PROPERTY, ""))
        cursor = _cursor(connection, log, group, deadline)  # after the acks: it advances while other members ack
    except (mqplug.AccessDenied, mqplug.AuthError):
        return GroupNotes()
    valid = cursor is not None and acks.mark <= cursor.mark
    attempts = attempts_from_text(there.get(ATTEMPTS_PROPERTY, ""))
    return GroupNotes(there.get(SEEK_PROPERTY, ""), acks if valid else BatchAcks(), cursor, attempts)


def last_seek(connection: PulsarConnection, log: Log, group: str, timeout: float) -> str:
    """Return the text that identifies the last seek; always the same text if it cannot be read."""
    if connection.admin is not None:
        with suppress(mqplug.AccessDenied, mqplug.AuthError):
            there = read_properties(connection, connection.admin, log, group, timeout)
            return there.get(SEEK_PROPERTY, "")
    return ""


def note_attempts(
    connection: PulsarConnection, log: Log, group: str, attempts: Mapping[Numbers, int], deadline: Deadline
) -> None:
    """Note how often messages were handed out: the broker forgets it when the group's only member disconnects."""
    admin = connection.admin
    if admin is None or not attempts:
        return

    def edit(there: Properties) -> Properties:
        known = {**attempts_from_text(there.get(ATTEMPTS_PROPERTY, "")), **attempts}
        return {**there, ATTEMPTS_PROPERTY: attempts_to_text(known)}

    with suppress(mqplug.Error), locked(connection, log, group, deadline):
        change_properties(connection, admin, log, group, edit, max(0.1, deadline.remaining()))


def add_batch_acks_unless_moved(
    connection: PulsarConnection, log: Log, group: str, masks: Mapping[Entry, int], seek: str, deadline: Deadline
) -> None:
    """Note acks inside batches, unless the group was moved since this seek."""
    if connection.admin is None:
        return
    with suppress(mqplug.AccessDenied, mqplug.AuthError), locked(connection, log, group, deadline):
        cursor = _cursor(connection, log, group, deadline)
        if cursor is not None and last_seek(connection, log, group, max(0.1, deadline.remaining())) == seek:
            add_batch_acks(connection, group, log, masks, cursor.mark, max(0.1, deadline.remaining()))


def _cursor(connection: PulsarConnection, log: Log, group: str, deadline: Deadline) -> Cursor | None:
    """Return the group's cursor; None if there is no such group."""
    if connection.admin is None:
        return None
    stats = connection.admin.stats(connection.native_topic(log), max(0.1, deadline.remaining()))
    cursor = cursor_of_group(stats, group)
    return None if cursor is None else Cursor.read(cursor, {}, Ledgers.read(stats))
