"""Groups as subscriptions: opens and creates them, and moves those without members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

import pulsar

import mqplug
from mqplug import Log, Position
from mqplug.spi import ConsumerOptions, Deadline, Earliest, GroupPosition, Latest, Mode
from mqplug_pulsar._admin.group_cursors import END_OF_LOG, cursors, move_cursor, note_position, place_for_admin
from mqplug_pulsar._admin.log_positions import start_positions
from mqplug_pulsar._cluster.admin_interface import ADMIN_URL_FIX, AdminRefused, error_from_refusal, group_path
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format import message_ids

Listen = Callable[[Any, Any], None]
SharedSubscribe = Callable[[Log, Listen | None], Any]
"""Opens a native consumer of a log, with a listener; without one, it asks for nothing."""

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


def shared_subscriber(
    connection: PulsarConnection, group: str, member: str, *, latest: bool, by_key: bool
) -> SharedSubscribe:
    """Return a function that opens native consumers of this group."""
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
            negative_ack_redelivery_delay_ms=1,  # the client takes 100
            batch_index_ack_enabled=True,
        )

    return subscribe


def prepare_group(connection: PulsarConnection, options: ConsumerOptions, timeout: float) -> None:
    """Store the start of logs where the group has no position, unless subscribing stores it anyway."""
    group = options.group or ""
    simple = isinstance(options.start, Earliest | Latest)
    if simple and not options.must_exist:
        return
    if connection.admin is None:
        raise mqplug.Unsupported(
            "groups", "starts other than EARLIEST and LATEST, and must_exist=, need Pulsar's admin interface",
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
