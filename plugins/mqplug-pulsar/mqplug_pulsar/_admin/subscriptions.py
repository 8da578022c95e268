"""Groups as subscriptions: opens, creates and moves them, and reads their positions.

A move through the admin interface survives a kill of the broker. When a broker moves a cursor, it first writes the new
position, together with the later acks that it is about to forget. If it is killed then, it restarts with these acks and
skips their messages. So the move is requested twice: by the second write, the broker has forgotten the acks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import pulsar

import mqplug
from mqplug import Log, Position
from mqplug.spi import ConsumerOptions, Deadline, Earliest, GroupPosition, Latest, Mode, Numbers
from mqplug.spi.groups import tidy
from mqplug_pulsar._admin.group_notes import acked_before, locked, note_position, read_properties, replace_notes
from mqplug_pulsar._admin.log_positions import start_positions
from mqplug_pulsar._cluster.admin_interface import (
    ADMIN_URL_FIX,
    AdminInterface,
    AdminRefused,
    error_from_refusal,
    group_path,
)
from mqplug_pulsar._cluster.broker_statistics import Cursor, Ledgers, cursor_of_group
from mqplug_pulsar._cluster.client_calls import retry_while_cursor_moves
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.note_texts import BATCH_ACKS_PROPERTY, SEEK_PROPERTY, Skipped

Listen = Callable[[Any, Any], None]
SharedSubscribe = Callable[[Log, Listen | None], Any]
"""Opens a client's consumer of a log. Without a listener, the consumer requests no messages."""

END_OF_LOG = 2**63 - 1  # as ledger and entry: after all messages
_TYPES = {"ordered": pulsar.ConsumerType.Failover, "exclusive": pulsar.ConsumerType.Exclusive}


def subscribe(
    connection: PulsarConnection,
    log: Log,
    group: str,
    *,
    latest: bool = False,
    member: str | None = None,
    mode: Mode = "exclusive",
    queue: int = 1,
) -> Any:
    """Return a client's consumer of one log. An exclusive one allows no other consumer of the group."""
    return connection.opener.consumer(
        connection.native_topic(log),
        group,
        consumer_type=_TYPES[mode],
        consumer_name=member,
        receiver_queue_size=queue,
        initial_position=pulsar.InitialPosition.Latest if latest else pulsar.InitialPosition.Earliest,
        start_message_id_inclusive=True,
        batch_index_ack_enabled=True,
    )


def shared_subscriber(
    connection: PulsarConnection, group: str, member: str, *, latest: bool, by_key: bool
) -> SharedSubscribe:
    """Return a function that opens client consumers of this group."""
    begin = pulsar.InitialPosition.Latest if latest else pulsar.InitialPosition.Earliest

    def subscribe(log: Log, listener: Listen | None) -> Any:
        return connection.opener.consumer(
            connection.native_topic(log),
            group,
            consumer_type=pulsar.ConsumerType.KeyShared if by_key else pulsar.ConsumerType.Shared,
            consumer_name=member,
            message_listener=listener,
            receiver_queue_size=0 if listener is None else 1,
            initial_position=begin,
            negative_ack_redelivery_delay_ms=1,  # the client's default is 100
            batch_index_ack_enabled=True,
        )

    return subscribe


def prepare_group(connection: PulsarConnection, options: ConsumerOptions, timeout: float) -> None:
    """Store the start position on logs where the group has none, unless subscribing stores it anyway."""
    group = options.group or ""
    simple = isinstance(options.start, Earliest | Latest)
    if simple and not options.must_exist:
        return
    if connection.admin is None:
        raise mqplug.Unsupported(
            "groups", "must_exist= and starts other than EARLIEST and LATEST need Pulsar's admin interface",
            fix=f"{ADMIN_URL_FIX}; or seek after opening",
        )  # fmt: skip
    subscription_positions = cursors(connection, options.logs, group, timeout)
    if options.must_exist and not subscription_positions:
        raise mqplug.GroupNotFound(f"the group {group!r} has no position on these topics", fix="Drop must_exist=True")
    fresh = [log for log in options.logs if log not in subscription_positions]
    if simple or not fresh:
        return
    starts = (
        options.start
        if isinstance(options.start, Mapping)
        else start_positions(connection, options.start, fresh, timeout)
    )
    create = {log: partial(_create, connection, group, starts[log], timeout) for log in fresh}
    connection.calls.each(create, timeout)


def move_subscriptions(
    connection: PulsarConnection, group: str, positions: Mapping[Log, GroupPosition], timeout: float
) -> None:
    """Move a group without members. An exclusive consumer ensures that there are none."""
    deadline = Deadline(timeout)
    if any(each.acked for each in positions.values()):
        raise mqplug.Unsupported(
            "individual_ack", "a group cannot be moved together with acks after its position", fix="Leave the acks out"
        )
    members = {log: partial(subscribe, connection, log, group) for log in positions}
    held = connection.calls.each(members, timeout, discard=lambda consumer: consumer.close())
    try:
        moves = {
            log: partial(move_cursor, connection, held[log], group, each.position, deadline.remaining())
            for log, each in positions.items()
        }
        connection.calls.each(moves, deadline.remaining())
    finally:
        for consumer in held.values():
            consumer.close()


def _create(connection: PulsarConnection, group: str, position: Position, timeout: float) -> None:
    """Create the subscription at a position, unless another member has just created it."""
    if connection.admin is None:
        return
    topic = connection.native_topic(position.log)
    ledger, entry, index = message_ids.start_of(position.coordinates)
    high = connection.ledgers(position.log, timeout).high
    if position.coordinates >= high:
        ledger = entry = END_OF_LOG
    try:
        connection.admin.put(group_path(topic, group), place_for_admin(ledger, entry, index), timeout)
        if position.coordinates > high:
            note_position(connection, group, position, timeout, (high, position.coordinates))
        elif index > 0:
            connection.admin.post(
                f"{group_path(topic, group)}/resetcursor", place_for_admin(ledger, entry, index), timeout
            )
            note_position(connection, group, position, timeout)
    except AdminRefused as error:
        if error.status != HTTPStatus.CONFLICT:
            raise error_from_refusal(error, position.log.topic) from error


def cursors(connection: PulsarConnection, logs: Sequence[Log], group: str, timeout: float) -> dict[Log, Cursor]:
    """Return the group's cursor for each log on which it has one. Needs the admin interface."""
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
    """Return the stored positions of a group."""
    return {log: _group_position(log, each) for log, each in cursors(connection, logs, group, timeout).items()}


def move_cursor(
    connection: PulsarConnection, consumer: Any, group: str, position: Position, timeout: float
) -> Skipped | None:
    """Move the group's stored position and drop later acks. Without the admin interface it is exact to the entry.

    The broker cannot move it beyond the end. For such a position, return the range that the group must skip.
    """
    deadline = Deadline(timeout)
    ledger, entry, index = message_ids.start_of(position.coordinates)
    if consumer is not None:
        last = connection.last_message(consumer, timeout)
    else:
        last = connection.last_id(connection.native_topic(position.log), timeout)
    end = message_ids.LOG_BEGIN if last is None else message_ids.position_after(*last)
    skipped = (end, position.coordinates) if position.coordinates > end else None
    if connection.admin is None:
        for _ in range(MOVES):
            retry_while_cursor_moves(partial(consumer.seek, pulsar.MessageId(-1, ledger, entry, index)), deadline)
        return skipped
    replace_notes(connection, group, position.log, {}, deadline)  # the old notes are no longer true
    reset_cursor(connection, connection.admin, position.log, group, position.coordinates, deadline)
    note_position(connection, group, position, deadline.remaining(), skipped)
    return skipped


def _group_position(log: Log, cursor: Cursor) -> GroupPosition:
    entries = [((*first, -1), (*last, END_OF_LOG)) for first, last in cursor.ranges]
    return tidy(GroupPosition(Position(log, cursor.position), tuple(sorted([*entries, *cursor.acks.ranges()]))))


MOVES = 2  # requests to move one cursor: see the module's docstring


def reset_cursor(
    connection: PulsarConnection, admin: AdminInterface, log: Log, group: str, to: Numbers, deadline: Deadline
) -> None:
    """Move the cursor to a position, which may lie inside a batch. The broker disconnects the members."""
    path = f"{group_path(connection.native_topic(log), group)}/resetcursor"
    body = place_for_admin(*message_ids.start_of(to))
    for _ in range(MOVES):
        try:
            admin.post(path, body, max(0.05, deadline.remaining()))
        except AdminRefused as error:
            raise error_from_refusal(error, log.topic) from error


def place_for_admin(ledger: int, entry: int, index: int) -> dict[str, int]:
    """Return a position in the admin interface's form."""
    return {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": index}


def seek_together(connection: PulsarConnection, group: str, position: Position, timeout: float) -> None:
    """Move the group's position in a log while it has members. They are disconnected, and their messages are free."""
    admin = connection.required_admin("shared", "a seek of members that share a log")
    deadline, log = Deadline(timeout), position.log
    noted = {SEEK_PROPERTY: uuid4().hex[:16]}
    if position.coordinates[2] > 0:  # the broker keeps it, but does not report it
        noted[BATCH_ACKS_PROPERTY] = acked_before(position).text()

    with locked(connection, log, group, deadline):
        replace_notes(connection, group, log, noted, deadline)
        reset_cursor(connection, admin, log, group, position.coordinates, deadline)
