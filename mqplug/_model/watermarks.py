"""The extent of a partition: watermarks and bounds."""

from __future__ import annotations

import attrs

from mqplug._model.ids import MessageId
from mqplug._model.position import Position


@attrs.frozen
class Watermarks:
    """The range of a partition's retained messages, from ``low`` to ``high``; ``count`` estimates their number.

    ``high`` is behind all that is stored, open transactions included. An empty partition has ``low == high``.
    ``exact`` is True if the count is not an estimate. Up to ``readable`` a read has to wait for no transaction: it is
    before ``high`` while one is open.
    """

    low: Position
    high: Position
    count: int
    exact: bool = False
    readable: Position = attrs.field(default=attrs.Factory(lambda self: self.high, takes_self=True))


@attrs.frozen
class Bounds:
    """The ids of the first and the last retained message of a partition; both None when it is empty.

    Messages of open transactions do not count.
    """

    first_id: MessageId | None
    last_id: MessageId | None
