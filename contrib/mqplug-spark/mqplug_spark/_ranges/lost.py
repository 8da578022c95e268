"""What retention removed from a range: an error, or, where it is allowed, a line in the log."""

from __future__ import annotations

import logging

from mqplug import Client, Position, PositionLost, Watermarks
from mqplug_spark._options.read_options import ReadOptions

log = logging.getLogger("mqplug.spark")


def what_is_left(
    client: Client, wanted: Position, mark: Watermarks, options: ReadOptions, until: Position | None = None
) -> Position:
    """Return where a range begins that was to begin at ``wanted``: there, or at the log's first message.

    Raise ``PositionLost`` if messages are gone, unless ``failOnDataLoss`` is false. Messages that lie behind the end of
    the range, ``until``, are not lost: nobody asked for them.
    """
    if wanted >= mark.low:
        return wanted
    if options.fail_on_data_loss:
        raise lost(wanted, mark.low)
    log_loss(client, wanted, mark.low if until is None else min(mark.low, until))
    return mark.low


def lost(wanted: Position, low: Position) -> PositionLost:
    """Return the error for messages that retention removed."""
    return PositionLost(
        f"retention removed messages of {low.log.topic}[{low.log.partition}] behind {wanted!r}: "
        f"the log begins at {low!r}",
        log=low.log, low=low, topic=low.log.topic, operation="plan a Spark read",
        fix="Start later, or set failOnDataLoss=false to read the remaining messages",
    )  # fmt: skip


def log_loss(client: Client, wanted: Position, low: Position) -> None:
    """Log that messages were stepped over, and how many at most, where that can be counted."""
    where = low.log
    count = f"{client.distance(wanted, low)}" if client.capabilities.advance else "an unknown number of"
    log.warning(
        "failOnDataLoss=false: %s messages of %s[%d] are lost, from %s to %s",
        count, where.topic, where.partition, wanted, low,
    )  # fmt: skip
