"""Drops received messages that must not be delivered: those before the position, duplicates, or those behind a gap."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, islice, takewhile
from operator import ge, le

import mqplug
from mqplug import Position, PositionLost
from mqplug.spi import Numbers
from mqplug_pulsar._cluster.broker_statistics import Cursor
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.partition_feed import PartitionFeed
from mqplug_pulsar._consume.received_messages import Received, ReceivedMessages
from mqplug_pulsar._consume.unacked import Unacked
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.note_texts import Skipped

LEDGERS_TIMEOUT_S = 10.0
MemberFeed = PartitionFeed[ReceivedMessages]


def wanted_by_reader(
    connection: PulsarConnection, feed: PartitionFeed[Received], received: Received
) -> Received | None:
    """Return the messages to deliver without a group, ascending. Raise ``PositionLost`` for a gap."""
    runs = received.runs
    wanted = feed.wanted or message_ids.LOG_BEGIN
    ledger = runs[0].first[0]
    if ledger > wanted[0] > 0:
        _check_gap(connection, feed, wanted, received)
    if runs[-1].first[0] != ledger:  # messages of another ledger are checked the next time
        turn = sum(run.size for run in takewhile(lambda run: run.first[0] == ledger, runs))
        feed.put_back(received.only(range(turn, len(received))))
        received = received.only(range(turn))
        runs = received.runs
    if all(map(le, chain([wanted], (run.behind for run in runs)), (run.first for run in runs))):
        return received
    rows = []
    for row, place in enumerate(received.coordinates()):
        if place >= wanted:
            rows.append(row)
            wanted = (*place[:2], place[2] + 1)
    return received.only(rows) if rows else None


def _check_gap(
    connection: PulsarConnection, feed: PartitionFeed[Received], wanted: Numbers, received: Received
) -> None:
    """Raise ``PositionLost`` for a gap, where Pulsar silently reads on. A gap can only lie between two ledgers."""
    try:
        low = connection.calls.run(partial(connection.ledgers, feed.log, LEDGERS_TIMEOUT_S), LEDGERS_TIMEOUT_S).low
    except mqplug.Error:
        feed.put_back(received)
        raise
    if wanted < low:
        feed.put_back(received)
        raise PositionLost(
            f"retention removed messages behind {Position(feed.log, wanted)!r}: the log begins at {low}",
            log=feed.log, low=Position(feed.log, low), topic=feed.log.topic,
        )  # fmt: skip


def wanted_by_member(feed: MemberFeed, run: ReceivedMessages, unacked: Unacked) -> ReceivedMessages | None:
    """Drop unacked deliveries that a reconnect repeats."""
    if feed.skipped is not None:
        run = _behind_skipped(feed, feed.skipped, run)
    places = run.coordinates()
    if places and unacked.last is not None and places[0] <= unacked.last:
        run = _rows(run, [row for row, place in enumerate(places) if not unacked.holds(place)]) or ReceivedMessages([])
    places = run.coordinates()
    back = next((row for row, step in enumerate(map(ge, places, islice(places, 1, None)), 1) if step), len(places))
    if back < len(places):  # repeated messages follow: keep them for the next time
        feed.put_back(run.only(range(back, len(run))))
    return _rows(run, range(back))


def without_acked(
    feed: MemberFeed, run: ReceivedMessages, unacked: Unacked, cursor: Cursor | None
) -> ReceivedMessages | None:
    """Drop messages that are acked. What is known only here, the broker does not know: ack it again."""
    if cursor is None and not unacked.knows_parts:
        return run
    rows = []
    for row, place in enumerate(run.coordinates()):
        if cursor is not None and cursor.has_acked((place[0], place[1])):
            continue
        if unacked.was_acked(place):
            feed.native.acknowledge(run.id_of(row))
        else:
            rows.append(row)
    return _rows(run, rows)


def _behind_skipped(feed: MemberFeed, skipped: Skipped, run: ReceivedMessages) -> ReceivedMessages:
    """Ack the messages between what was the end and a position beyond it, and return the others."""
    end, beyond = skipped
    places = run.coordinates()
    if places[0] < end:  # the group was moved back meanwhile
        feed.skipped = None
        return run
    for row, place in enumerate(places):
        if place < beyond:
            feed.native.acknowledge(run.id_of(row))
    return _rows(run, [row for row, place in enumerate(places) if place >= beyond]) or ReceivedMessages([])


def _rows(run: ReceivedMessages, rows: Sequence[int]) -> ReceivedMessages | None:
    if not rows:
        return None
    return run if len(rows) == len(run) else run.only(rows)
