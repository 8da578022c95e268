"""Group positions in one form, as several backends store them."""

from __future__ import annotations

import attrs

from mqplug._model.text import Numbers
from mqplug.spi._actions import GroupPosition

AckedRange = tuple[Numbers, Numbers]


def tidy(stands: GroupPosition) -> GroupPosition:
    """Return the position with its ranges ascending, merged where they overlap, without what the position covers."""
    acked: list[AckedRange] = []
    begin = stands.position.coordinates
    for first, last in sorted(stands.acked):
        if last < begin:
            continue
        if acked and first <= acked[-1][1]:
            acked[-1] = (acked[-1][0], max(acked[-1][1], last))
        else:
            acked.append((max(first, begin), last))
    return attrs.evolve(stands, acked=tuple(acked))
