"""The messages that one task reads."""

from __future__ import annotations

import attrs


@attrs.frozen
class ReadRange:
    """The messages of one partition that one task reads: from ``start`` to just before ``until``, as text."""

    topic: str
    partition: int
    start: str
    until: str
