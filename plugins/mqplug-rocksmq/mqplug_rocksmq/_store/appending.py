"""Appending to a log: its pages, its entries in the time index, and its state in memory, for one write."""

from __future__ import annotations

from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._engine.log_state import LEASE_OFFSETS, LogState
from mqplug_rocksmq._engine.rocks import Changes
from mqplug_rocksmq._format.keys import TimeMark, mark_key, mark_value
from mqplug_rocksmq._format.page import PageBody


def append_page(changes: Changes, log: LogState, body: PageBody) -> None:
    """Add a page to the changes, as the next one of its log. The log's record is still to be added."""
    now, page = clock.now_ms(), body.seal(log.end)
    log.newest = max(log.newest, body.newest)
    if log.needs_mark(log.newest, now):
        log.marked_size, log.marked_at, log.marked_time = log.size, now, log.newest
        mark = TimeMark(log.newest, log.next, log.size, now)
        changes.put(mark_key(log.number, mark.time, mark.base), mark_value(mark))
    changes.put_page(log.number, log.next, page)
    log.next = log.end = log.next + body.messages
    log.size += len(page)
    log.messages += body.messages


def lease_offsets(log: LogState) -> bool:
    """Lease more offsets if the appended messages need them. Return whether that has to be on disk before their use."""
    leasing = log.next > log.leased
    if leasing:
        log.leased = log.next + LEASE_OFFSETS
    return leasing
