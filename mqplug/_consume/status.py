"""What a consumer says of itself: the state of each partition, and counts."""

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
    """How one partition of a consumer stands.

    ``waits_for`` says why nothing is handed out: it is ``paused``; a message was given back and comes first
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
    """What a consumer did since it was opened."""

    received: int
    """Messages handed out, those that came again included."""
    returned: int
    """Messages given back with nack."""
    dead_lettered: int
    """Messages that went to the dead-letter topic."""
    late_acks: int
    """Acks and nacks that came twice, after a seek, or after a hand-over: they change nothing."""
    commits: int
    """How often acks were stored."""
    polls: int
    """How often the driver was asked for messages."""
    gaps: int
    """How often retention had removed what came next, and reading went on with the first message that was left."""


def partition_state(held: HeldPartition) -> PartitionState:
    """The state of one partition. Whoever asks holds ``committing``."""
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
