"""The state of each partition of a consumer, and its counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from mqplug._consume.ack_tracker import Tracker

if TYPE_CHECKING:
    from mqplug._consume.assignment import HeldPartition
    from mqplug._model.errors import Error
    from mqplug._model.ids import MessageId
    from mqplug._model.log import Log
    from mqplug._model.position import Position

Waits = Literal["paused", "returned", "unacked", "fault"]


@attrs.frozen(kw_only=True)
class PartitionState:
    """The state of one partition of a consumer.

    ``waits_for`` is the reason why nothing is handed out: it is ``paused``; a message was nacked and comes first
    (``returned``); too many are ``unacked``, of which ``blocked_by`` is the first; or there is a ``fault``.
    ``position`` is None in the modes in which members share a log.
    """

    log: Log
    position: Position | None
    unacked: int
    waits_for: Waits | None
    blocked_by: MessageId | None
    fault: Error | None


@attrs.frozen(kw_only=True)
class ConsumerStatistics:
    """Counts of a consumer since it was opened."""

    received: int
    """Messages handed out, including those that came again."""
    returned: int
    """Nacked messages."""
    dead_lettered: int
    """Messages that went to the dead-letter topic."""
    late_acks: int
    """Acks and nacks that came twice, after a seek, or after another member got the message: they change nothing."""
    commits: int
    """Commits of acks."""
    polls: int
    """Polls of the driver."""
    gaps: int
    """Gaps: retention had removed the next messages, and reading went on with the first retained one."""


def partition_state(held: HeldPartition) -> PartitionState:
    """Return the state of one partition. The caller holds ``committing``."""
    tracker = held.tracker
    waits_for = _waits_for(held)
    return PartitionState(
        log=held.log,
        position=tracker.position if isinstance(tracker, Tracker) else None,
        unacked=tracker.unsettled,
        waits_for=waits_for,
        blocked_by=tracker.oldest if waits_for in {"returned", "unacked"} else None,
        fault=held.fault,
    )


def _waits_for(held: HeldPartition) -> Waits | None:
    if held.fault is not None:
        return "fault"
    if held.paused:
        return "paused"
    if isinstance(held.tracker, Tracker) and held.tracker.returned:
        return "returned"
    return "unacked" if held.tracker.awaited else None
