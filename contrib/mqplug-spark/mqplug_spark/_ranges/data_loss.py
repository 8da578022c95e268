"""Lost messages: an error, or with ``failOnDataLoss=false`` a warning in the log."""

from __future__ import annotations

import logging
from typing import Any

from mqplug import Client, InvalidMessageId, Position, PositionLost, Watermarks
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.read_range import Partition

log = logging.getLogger("mqplug.spark")


def what_is_left(
    client: Client, wanted: Position, mark: Watermarks, options: ReadOptions, until: Position | None = None
) -> Position:
    """Return the start of a range: ``wanted``, or the log's first message if that is later.

    Raise ``PositionLost`` if messages are gone, unless ``failOnDataLoss`` is false. The logged count stops at the end
    of the range, ``until``.
    """
    if wanted >= mark.low:
        return wanted
    if options.fail_on_data_loss:
        low = mark.low
        raise PositionLost(
            f"retention removed messages of {low.log.topic}[{low.log.partition}] after {wanted!r}: "
            f"the log begins at {low!r}",
            log=low.log, low=low, topic=low.log.topic, operation="plan a Spark read",
            fix="Start later, or set failOnDataLoss=false to read the remaining messages",
        )  # fmt: skip
    log_loss(client, wanted, mark.low if until is None else min(mark.low, until))
    return mark.low


def log_loss(client: Client, wanted: Position, low: Position) -> None:
    """Log that messages were skipped, and at most how many if the backend can count them."""
    where = low.log
    count = f"{client.distance(wanted, low)}" if client.capabilities.advance else "an unknown number of"
    log.warning(
        "failOnDataLoss=false: %s messages of %s[%d] are lost, from %s to %s",
        count, where.topic, where.partition, wanted, low,
    )  # fmt: skip


class LossReports:
    """The losses of a query: raised, or logged once each, although a waiting query finds them again and again."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._logged: dict[Partition, str] = {}

    def gone(self, partition: Partition, reached: Position) -> None:
        """Report a partition that no longer exists."""
        self.report(partition, f"{partition} is gone; the query has read it up to {reached!r}", log=reached.log)

    def removed(self, partition: Partition, reached: Position, low: Position, count: int | None = None) -> None:
        """Report messages that retention removed, and at most how many if the backend can count them."""
        amount = "" if count is None else f"{count} "
        what = f"retention removed {amount}messages of {partition} from {reached!r} to {low!r} before they were read"
        self.report(partition, what, log=reached.log, low=low)

    def report(self, partition: Partition, what: str, **where: Any) -> None:
        """Raise ``PositionLost``, or log the loss if the query may continue."""
        if self._fail:
            raise PositionLost(
                what, topic=partition.topic, operation="plan a stream",
                fix="Set failOnDataLoss=false to continue with what remains, or start a query with a new checkpoint",
                **where,
            )  # fmt: skip
        if self._logged.get(partition) != what:
            self._logged[partition] = what
            log.warning("failOnDataLoss=false: %s", what)


def recreated(partition: Partition, reached: Position) -> InvalidMessageId:
    """Return the error for a topic that was deleted and created again. No option makes a query jump to the new one."""
    return InvalidMessageId(
        f"{partition.topic!r} was deleted and created again since the query read {partition} up to {reached!r}",
        topic=partition.topic, operation="plan a stream", fix="Read the new topic with a new checkpoint",
    )  # fmt: skip
