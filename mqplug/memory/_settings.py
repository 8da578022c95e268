"""The settings of the memory backend."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import gt, optional


@attrs.frozen(kw_only=True)
class MemorySettings:
    """Settings of a memory store: ``name`` selects one that the whole process shares, ``like`` its personality.

    ``message_max_bytes`` is the size of the largest message (default: the personality's limit).
    """

    name: str | None = None
    like: Literal["full", "kafka", "pulsar"] = "full"
    message_max_bytes: int | None = attrs.field(default=None, validator=optional(gt(0)))
