"""Finds messages that come too early when a member takes a partition over.

The broker makes a member active at once, but goes back to the first unacked message only after
``activeConsumerFailoverDelayTimeMillis``. What is sent meanwhile may come before the messages that the member before
had in hand.

When no broker answers, nothing proves that no messages are missing: what arrives early counts as behind a gap. Nothing
is lost by that, for the native client gets everything again when it reconnects.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import itemgetter

import attrs

from mqplug import Log
from mqplug.spi import Numbers
from mqplug_pulsar._cluster.broker_statistics import Cursor
from mqplug_pulsar._consume.committer import Committer
from mqplug_pulsar._consume.received_messages import ReceivedMessages
from mqplug_pulsar._consume.unwanted_messages import MemberFeed
from mqplug_pulsar._format import message_ids

REQUEST_AGAIN_S = 3.0  # then a request counts as lost
_ENTRY = itemgetter(1)


@attrs.frozen
class _Gap:
    wanted: Numbers | None
    behind: Numbers  # the first message that came too early
    since: float


class HandOverGaps:
    """The gaps before messages of one member that came too early."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._gaps: dict[Log, _Gap] = {}

    def without_gap(
        self, feed: MemberFeed, run: ReceivedMessages, cursor: Cursor | None
    ) -> tuple[ReceivedMessages | None, Cursor | None]:
        """Return the messages up to the next missing entry, and where the group stands if that was read meanwhile.

        If unacked messages are missing before the first one, drop all, and have the broker send everything again.
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
        """Return where the group stands, and whether messages are missing. Read it if what is known proves nothing."""
        if cursor is None:
            if not _is_gap(feed.wanted, place, self._committer.learnt(feed.log), unknown=True):
                return None, False
            cursor = self._committer.learn(feed.log)
        return cursor, _is_gap(feed.wanted, place, cursor, unknown=self._committer.is_unanswered(feed.log))

    def _gives_up(self, feed: MemberFeed, place: Numbers) -> bool:
        """Return whether the broker began again and does not have the missing messages. Have it begin again before.

        A message behind the first one that came too early was under way by then, however long the broker takes.
        """
        gap = self._gaps.get(feed.log)
        if gap is None or gap.wanted != feed.wanted:
            gap = None
        elif place <= gap.behind:
            del self._gaps[feed.log]
            return True
        if gap is None or time.monotonic() > gap.since + REQUEST_AGAIN_S:
            self._gaps[feed.log] = _Gap(feed.wanted, gap.behind if gap is not None else place, time.monotonic())
            feed.native.redeliver_unacknowledged_messages()  # nothing happens if another member is active by now
        return False


def _is_gap(wanted: Numbers | None, place: Numbers, cursor: Cursor | None, *, unknown: bool = False) -> bool:
    """Return whether unacked entries lie between a position and a message; ``unknown`` if there is no cursor."""
    if cursor is None:
        return unknown
    begin, end = wanted or message_ids.LOG_BEGIN, message_ids.start_of(place)
    return cursor.next_unacked((begin[0], begin[1])) < (end[0], end[1])


def _first_jump(places: Sequence[Numbers]) -> int:
    """Return the first row that is not of the same entry as the row before, nor of the next one."""
    first, last = places[0], places[-1]
    if first[0] == last[0] and len(set(map(_ENTRY, places))) == last[1] - first[1] + 1:
        return len(places)
    for row in range(1, len(places)):
        before, here = places[row - 1], places[row]
        if here[0] != before[0] or here[1] > before[1] + 1:
            return row
    return len(places)
