"""The cases, one module for each section of the contract."""

from __future__ import annotations

from typing import Final

from mqplug.testing._cases import (
    ack,
    close,
    concurrency,
    consume,
    declared,
    disks,
    errors,
    faults,
    groups,
    handover,
    holding,
    ids,
    keys,
    large,
    lifecycle,
    membership,
    modes,
    moves,
    order,
    outages,
    payload,
    produce,
    reaching,
    resending,
    resting,
    retention,
    returning,
    seek,
    timeouts,
    times,
    topics,
    trimmed,
    waiting,
    watermarks,
)
from mqplug.testing._registry import Case

_SECTIONS = (
    ack,
    close,
    concurrency,
    consume,
    declared,
    disks,
    errors,
    faults,
    groups,
    handover,
    holding,
    ids,
    keys,
    large,
    lifecycle,
    membership,
    modes,
    moves,
    order,
    outages,
    payload,
    produce,
    reaching,
    resending,
    resting,
    retention,
    returning,
    seek,
    timeouts,
    times,
    topics,
    trimmed,
    waiting,
    watermarks,
)

CASES: Final[tuple[Case, ...]] = tuple(
    sorted((case for section in _SECTIONS for case in section.case.cases), key=lambda case: case.id)
)
