"""The extent of a partition: watermarks and bounds."""

from __future__ import annotations

import attrs

from mqplug._model.ids import MessageId
from mqplug._model.position import Position


@attrs.frozen
class Watermarks:
    """What a partition retains lies between ``low`` and ``high``; ``count`` is how many messages, as an estimate.

    An empty partition has ``low == high``. ``exact`` says that the count is no estimate.
    """

    low: Position
    high: Position
    count: int
    exact: bool = False


@attrs.frozen
class Bounds:
    """The ids of the first and the last retained message of a partition; both None when it is empty."""

    first_id: MessageId | None
    last_id: MessageId | None
