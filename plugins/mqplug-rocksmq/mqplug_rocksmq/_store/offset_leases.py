"""Leases of offsets: no offset is assigned twice, even if the host dies and a log loses its last messages.

A log's record names the offset up to which offsets are leased, and is on disk before one of them is used. When the host
dies, the last writes may be lost, though somebody may know the ids that they assigned. So the next opener of the store
skips all leased offsets. A lease is large, so that few writes must renew it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mqplug_rocksmq._engine.log_state import LogState
from mqplug_rocksmq._engine.rocks import Changes
from mqplug_rocksmq._format.keys import LogRecord, log_key, log_value

LEASE_OFFSETS: Final = 1 << 20
LOST_RECORD_OFFSETS: Final = 1 << 32  # skipped after a log whose record is lost, because its lease is unknown


def new_log_record() -> LogRecord:
    """Return the record of an empty log, which has a first lease."""
    return LogRecord(0, 0, 0, LEASE_OFFSETS, 0, 0, 0)


def substitute_log_record(low: int, end: int, newest: int, size: int) -> LogRecord:
    """Return a record for a log whose own is lost. It skips all offsets that may have been assigned."""
    following = end + LOST_RECORD_OFFSETS
    return LogRecord(low, end, following, following + LEASE_OFFSETS, newest, size, 0)


def lease_offsets(log: LogState) -> bool:
    """Lease more offsets if the appended messages need them. Return True if so: it must be on disk before their use."""
    leasing = log.next > log.leased
    if leasing:
        log.leased = log.next + LEASE_OFFSETS
    return leasing


def skip_leased_offsets(changes: Changes, logs: Iterable[LogState]) -> None:
    """Skip all leased offsets: they may have been assigned to messages that are lost."""
    for log in logs:
        log.next = max(log.next, log.leased)
        changes.put(log_key(log.number), log_value(log.record))
