"""Groups as subscriptions: opens them, reads and moves their cursors, and confirms acks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import pulsar

import mqplug
from mqplug import Log, Position
from mqplug.spi import ConsumerOptions, Deadline, Earliest, GroupPosition, Latest, Mode
from mqplug_pulsar._admin.log_positions import start_positions
from mqplug_pulsar._cluster.admin_interface import AdminRefused, error_from_refusal, group_path, topic_path
from mqplug_pulsar._cluster.broker_statistics import (
    BEYOND_PROPERTY,
    WITHIN_PROPERTY,
    AckProgress,
    Cursor,
    Ledgers,
    Skipped,
    cursor_of_group,
)
from mqplug_pulsar._cluster.connection import PulsarConnection, last_message
from mqplug_pulsar._cluster.native_calls import retry_while_cursor_moves
from mqplug_pulsar._format import message_ids

_TYPES = {"ordered": pulsar.ConsumerType.Failover, "exclusive": pulsar.ConsumerType.Exclusive}
NOTED_PROPERTIES = {WITHIN_PROPERTY, BEYOND_PROPERTY}
END_OF_LOG = 2**63 - 1  # as ledger and entry: behind all messages
CURSOR_CHECK_S = 0.02  # between two checks of a cursor that is about to move
ACK_RESEND_S = 2.0  # then an ack counts as lost, with a broken connection
CURSOR_WRITE_S = 0.2  # a write that takes longer was deferred: the broker makes about one a second


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
    """Return a native consumer of one log. An exclusive one allows no other consumer of the group."""
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


def prepare_group(connection: PulsarConnection, options: ConsumerOptions, timeout: float) -> None:
    """Store the start of logs where the group has no position, unless subscribing stores it anyway."""
    group = options.group or ""
    simple = isinstance(options.start, Earliest | Latest)
    if simple and not options.must_exist:
        return
    if connection.admin is None:
        raise mqplug.ConfigError(
            "starts other than EARLIEST and LATEST, and must_exist=, need Pulsar's admin interface",
            fix="Say admin_url=, or seek after opening",
        )
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


def cursors(connection: PulsarConnection, logs: Sequence[Log], group: str, timeout: float) -> dict[Log, Cursor]:
    """Return the group's cursors, of those logs where it has one. Needs the admin interface."""
    found = connection.calls.each({log: partial(cursor, connection, log, group, timeout) for log in logs}, timeout)
    return {log: each for log, each in found.items() if each is not None}


def cursor(connection: PulsarConnection, log: Log, group: str, timeout: float) -> Cursor | None:
    """Return the group's cursor on one log, or None."""
    if connection.admin is None:
        raise mqplug.Unsupported(
            "groups", "reading the stored position of a group needs Pulsar's admin interface", fix="Say admin_url="
        )
    topic = connection.native_topic(log)
    stats = connection.admin.stats(topic, timeout)
    found = cursor_of_group(stats, group)
    if found is None:
        return None
    try:
        properties = connection.admin.get(f"{group_path(topic, group)}/properties", timeout)
    except AdminRefused:  # an older broker, or the group was deleted meanwhile
        properties = None
    return Cursor.read(found, properties or {}, Ledgers.read(stats))


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
    last = last_message(consumer)
    end = message_ids.LOG_BEGIN if last is None else message_ids.position_behind(*last)
    skipped = (end, position.coordinates) if position.coordinates > end else None
    if connection.admin is None:
        retry_while_cursor_moves(partial(consumer.seek, pulsar.MessageId(-1, ledger, entry, index)), deadline)
        return skipped
    path = f"{group_path(connection.native_topic(position.log), group)}/resetcursor"
    try:
        connection.admin.post(path, _place(ledger, entry, index), timeout)
    except AdminRefused as error:
        raise error_from_refusal(error, position.log.topic) from error
    note_position(connection, group, position, deadline.remaining(), skipped)
    return skipped


def note_position(
    connection: PulsarConnection, group: str, position: Position, timeout: float, skipped: Skipped | None = None
) -> None:
    """Note a position inside a batch, which the broker keeps but does not report, or one beyond the end."""
    there = cursor(connection, position.log, group, timeout)
    if connection.admin is None or there is None or there.position == position.coordinates:
        return
    properties = {name: text for name, text in there.properties.items() if name not in NOTED_PROPERTIES}
    if skipped is not None:
        (ledger, entry, *_), beyond = skipped
        properties[BEYOND_PROPERTY] = f"{ledger}:{entry}..{':'.join(map(str, beyond[:3]))}"
    elif position.coordinates[2] > 0:
        properties[WITHIN_PROPERTY] = ":".join(map(str, position.coordinates[:3]))
    if properties == there.properties:
        return
    try:
        path = f"{group_path(connection.native_topic(position.log), group)}/properties"
        connection.admin.put(path, properties, timeout)
    except AdminRefused as error:
        raise error_from_refusal(error, position.log.topic) from error


def ack_and_wait(
    connection: PulsarConnection, log: Log, group: str, member: str, ack: Callable[[], None], deadline: Deadline
) -> None:
    """Ack, and return when the broker has written it. The client sends acks later, and waits for no answer."""
    look = partial(_acks, connection, log, group, member, deadline)
    before = look()
    ack()
    resend_at = time.monotonic() + ACK_RESEND_S
    arrived = None
    while True:
        acks, now = look(), time.monotonic()
        if acks.received < before.received:  # the member reconnected meanwhile
            before, arrived = acks, None
        elif acks.received > before.received:
            arrived = arrived or now
            if acks.written_after(before) or now > arrived + CURSOR_WRITE_S:
                return
        if deadline.expired:
            raise mqplug.Timeout(
                f"the broker did not confirm the acks of the group {group!r} on partition {log.partition} in time",
                topic=log.topic, fix="Commit again",
            )  # fmt: skip
        if arrived is None and now > resend_at:
            ack()
            resend_at = now + ACK_RESEND_S
        time.sleep(CURSOR_CHECK_S)


def _acks(connection: PulsarConnection, log: Log, group: str, member: str, deadline: Deadline) -> AckProgress:
    """Return how far the broker has processed the acks of a member."""
    if connection.admin is None:
        return AckProgress(0, (-1, -1))
    topic, left = connection.native_topic(log), max(0.1, deadline.remaining())
    try:
        stats = connection.admin.get(f"{topic_path(topic)}/stats", left)
    except AdminRefused as error:
        raise error_from_refusal(error, log.topic) from error
    return AckProgress.read(stats, connection.admin.stats(topic, left), group, member)


def move_subscriptions(
    connection: PulsarConnection, group: str, positions: Mapping[Log, GroupPosition], timeout: float
) -> None:
    """Move a group without members. An exclusive consumer proves that there are none."""
    deadline = Deadline(timeout)
    if any(each.acked for each in positions.values()):
        raise mqplug.Unsupported(
            "individual_ack", "a group cannot be moved together with acks behind its position", fix="Leave the acks out"
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
    """Create the subscription at a position, unless it was created meanwhile."""
    if connection.admin is None:
        return
    topic = connection.native_topic(position.log)
    ledger, entry, index = message_ids.start_of(position.coordinates)
    high = connection.ledgers(position.log, timeout).high
    if position.coordinates >= high:
        ledger = entry = END_OF_LOG
    try:
        connection.admin.put(group_path(topic, group), _place(ledger, entry, index), timeout)
        if position.coordinates > high:
            note_position(connection, group, position, timeout, (high, position.coordinates))
        elif index > 0:
            connection.admin.post(f"{group_path(topic, group)}/resetcursor", _place(ledger, entry, index), timeout)
            note_position(connection, group, position, timeout)
    except AdminRefused as error:
        if error.status != HTTPStatus.CONFLICT:
            raise error_from_refusal(error, position.log.topic) from error


def _place(ledger: int, entry: int, index: int) -> dict[str, int]:
    return {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": index}


def _group_position(log: Log, cursor: Cursor) -> GroupPosition:
    ranges = tuple(((*first, -1), (*last, END_OF_LOG)) for first, last in cursor.ranges)
    return GroupPosition(Position(log, cursor.position), ranges)
