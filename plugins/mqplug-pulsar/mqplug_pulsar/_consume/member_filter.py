"""Filters the messages that a member of a group receives: those already delivered, acked, or too early.

Messages come too early when a member takes over a partition. The broker makes a member active at once, but goes back to
the first unacked message only after ``activeConsumerFailoverDelayTimeMillis``. Until then, it may send messages ahead
of those that the previous member had in hand.

When no broker answers, nothing proves that no messages are missing, so early messages count as after a gap. This loses
nothing, because the client gets everything again when it reconnects.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from operator import ge, itemgetter
from typing import Any

import attrs

from mqplug import Log, Position
from mqplug.spi import Numbers
from mqplug_pulsar._cluster.broker_statistics import Cursor
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.committer import Committer, Unacked
from mqplug_pulsar._consume.partition_feeds import PartitionFeed
from mqplug_pulsar._consume.received_messages import ReceivedMessages
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.note_texts import BatchAcks, Skipped

MemberFeed = PartitionFeed[ReceivedMessages]


class MemberFilter:
    """Holds back the received messages that a member must not deliver, or not yet."""

    def __init__(self, connection: PulsarConnection, committer: Committer, *, ordered: bool) -> None:
        self._committer = committer
        self._has_no_admin = connection.admin is None
        self._looks_for_gaps = ordered and connection.admin is not None
        self._gaps = HandOverGaps(committer)
        self.unjudged: dict[Log, ReceivedMessages] = {}
        """Repeated messages that may be acked: no broker has answered yet."""
        self.rewound: dict[Log, list[Any]] = {}
        """Repeated messages from before the last delivery."""
        self._delivered: dict[Log, Numbers] = {}  # the last delivered message before the log was revoked

    def take(self, feed: MemberFeed, most: int) -> ReceivedMessages | None:
        """Return messages to deliver, ascending."""
        if feed.log in self.unjudged or feed.log in self.rewound:
            return None
        received = feed.take(most)
        if received is None:
            return None
        unacked = self._committer.unacked(feed.log)
        run = wanted_by_member(feed, received, unacked)
        if run is not None:
            again = self._was_delivered(feed.log, run.coordinates()[0], unacked)
            cursor = self._committer.learn(feed.log) if again else self._learn(feed, run, unacked)
            if again and self._committer.is_unanswered(feed.log):
                self.unjudged[feed.log] = run
                return None
            if self._looks_for_gaps:
                run, cursor = self._gaps.without_gap(feed, run, cursor)
            if run is not None:
                run = without_acked(feed, run, unacked, cursor)
        if run is not None and unacked.last is not None and run.coordinates()[0] <= unacked.last:
            self.rewound[feed.log] = run.messages
            return None
        if run is not None:
            unacked.add(run)
        return run

    def _learn(self, feed: MemberFeed, run: ReceivedMessages, unacked: Unacked) -> Cursor | None:
        """Read the acks, unless these are simply the next messages: other members may have been active in between.

        An earlier answer may be wrong by now, if the group was moved back, so no message is dropped because of it.
        """
        places = run.coordinates()
        if self._has_no_admin:
            return None
        if message_ids.follows(places[0], feed.wanted) or self._committer.learnt_lately(feed.log):
            drops = unacked.knows_parts and any(map(unacked.was_acked, places))
            return self._committer.learn(feed.log) if drops else None
        return self._committer.learn(feed.log)

    def _was_delivered(self, log: Log, place: Numbers, unacked: Unacked) -> bool:
        """Return whether this message was delivered before, and so may be acked."""
        return place <= max(filter(None, (unacked.last, self._delivered.get(log))), default=(-1,))

    def begin_again(self, feed: MemberFeed, cursor: Cursor | None) -> Position:
        """Deliver the repeated messages again, and those after them. Return the position where they begin."""
        log, unacked = feed.log, self._committer.unacked(feed.log)
        messages = {message_ids.coordinates(each.message_id()): each for each in self.rewound.pop(log)}
        last = max(messages)
        for each in unacked.messages():
            if (place := message_ids.coordinates(each.message_id())) < last:  # later ones will still arrive
                messages[place] = each
        begin = Position(log, message_ids.position_before(min(messages)))
        self._delivered[log] = max(unacked.last or last, self._delivered.get(log, last))
        self._committer.opened(log, feed.native)
        self._committer.take_over(log, BatchAcks() if cursor is None else cursor.acks)
        run = ReceivedMessages([messages[place] for place in sorted(messages)])
        left = without_acked(feed, run, self._committer.unacked(log), cursor)  # some were acked since they arrived
        feed.wanted = None
        feed.put_back(left)
        return begin

    def forget(self, log: Log) -> None:
        """Forget the received messages of a log: it is read anew."""
        for former in (self.unjudged, self.rewound, self._delivered):
            former.pop(log, None)


def wanted_by_member(feed: MemberFeed, run: ReceivedMessages, unacked: Unacked) -> ReceivedMessages | None:
    """Drop unacked deliveries that a reconnect repeats."""
    if feed.skipped is not None:
        run = _after_skipped(feed, feed.skipped, run)
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
    """Drop acked messages. Ack them again if only this member knows about the ack, and not the broker."""
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


def _after_skipped(feed: MemberFeed, skipped: Skipped, run: ReceivedMessages) -> ReceivedMessages:
    """Ack the messages between the former end and a position beyond it, and return the others."""
    end, beyond = skipped
    places = run.coordinates()
    if places[0] < end:  # the group was moved back since
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


REQUEST_AGAIN_S = 3.0  # after this time a request counts as lost
_ENTRY = itemgetter(1)


@attrs.frozen
class _Gap:
    wanted: Numbers | None
    first: Numbers  # the first too early message
    since: float


class HandOverGaps:
    """The gaps before a member's too early messages."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._gaps: dict[Log, _Gap] = {}

    def without_gap(
        self, feed: MemberFeed, run: ReceivedMessages, cursor: Cursor | None
    ) -> tuple[ReceivedMessages | None, Cursor | None]:
        """Return the messages up to the next missing entry, and the group's cursor if this call has read it.

        If unacked messages are missing before the first one, drop all and make the broker send everything again.
        """
        places = run.coordinates()
        if (row := _first_jump(places)) < len(places):
            feed.put_back(run.only(range(row, len(places))))
            run = run.only(range(row))
        if not message_ids.follows(places[0], feed.wanted) and feed.skipped is None:
            cursor, is_gap = self._look(feed, places[0], cursor)
            if is_gap:
                return (run if self._gives_up(feed, places[0]) else None), cursor
        self._gaps.pop(feed.log, None)
        return run, cursor

    def _look(self, feed: MemberFeed, place: Numbers, cursor: Cursor | None) -> tuple[Cursor | None, bool]:
        """Return the group's cursor, and whether messages are missing. Read the cursor if the known one is no proof."""
        if cursor is None:
            if not _is_gap(feed.wanted, place, self._committer.learnt(feed.log), unknown=True):
                return None, False
            cursor = self._committer.learn(feed.log)
        return cursor, _is_gap(feed.wanted, place, cursor, unknown=self._committer.is_unanswered(feed.log))

    def _gives_up(self, feed: MemberFeed, place: Numbers) -> bool:
        """Return whether the broker began again without the missing messages. If it has not begun again, request it.

        A message after the first too early one proves nothing: it was in transit before the broker began again.
        """
        gap = self._gaps.get(feed.log)
        if gap is None or gap.wanted != feed.wanted:
            gap = None
        elif place <= gap.first:
            del self._gaps[feed.log]
            return True
        if gap is None or time.monotonic() > gap.since + REQUEST_AGAIN_S:
            self._gaps[feed.log] = _Gap(feed.wanted, gap.first if gap is not None else place, time.monotonic())
            feed.native.redeliver_unacknowledged_messages()  # nothing happens if another member is active by now
        return False


def _is_gap(wanted: Numbers | None, place: Numbers, cursor: Cursor | None, *, unknown: bool = False) -> bool:
    """Return whether unacked entries lie between a position and a message; ``unknown`` if there is no cursor."""
    if cursor is None:
        return unknown
    begin, end = wanted or message_ids.LOG_BEGIN, message_ids.start_of(place)
    return cursor.next_unacked((begin[0], begin[1])) < (end[0], end[1])


def _first_jump(places: Sequence[Numbers]) -> int:
    """Return the first row whose entry neither equals nor follows the entry of the row before."""
    first, last = places[0], places[-1]
    if first[0] == last[0] and len(set(map(_ENTRY, places))) == last[1] - first[1] + 1:
        return len(places)
    for row in range(1, len(places)):
        before, here = places[row - 1], places[row]
        if here[0] != before[0] or here[1] > before[1] + 1:
            return row
    return len(places)
