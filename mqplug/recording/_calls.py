"""What a recording consists of."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

import attrs

from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug._model.text import Numbers
from mqplug._model.watermarks import Watermarks
from mqplug.spi import GroupPosition

Outcome = Literal["ok", "failed", "unknown"]
Payloads = Literal["digest", "value", "none"]


@attrs.frozen
class Sent:
    """Messages of one call that went to one partition, as columns of one length.

    ``rows`` are their places in the call. ``partition`` is -1 where the driver chose; ``log`` is the one they were
    stored in. ``keys`` and ``values`` are as the recorder's ``payloads`` says: digests, the bytes, or nothing.
    """

    topic: str
    partition: int
    log: Log | None
    rows: tuple[int, ...]
    keys: tuple[bytes | None, ...]
    values: tuple[bytes | None, ...]
    outcomes: tuple[Outcome, ...]
    coordinates: tuple[Numbers | None, ...]


@attrs.frozen
class Received:
    """A batch as the driver delivered it: columns of one length, and the position behind it."""

    log: Log
    coordinates: tuple[Numbers, ...]
    keys: tuple[bytes | None, ...]
    values: tuple[bytes | None, ...]
    attempts: tuple[int, ...]
    next_position: Position


@attrs.frozen
class Settled:
    """What became of messages of one log in a shared group."""

    log: Log
    acked: tuple[Numbers, ...]
    returned: tuple[Numbers, ...]


@attrs.frozen(kw_only=True)
class Call:
    """One call, from ``began`` to ``ended`` (``time.monotonic``; None if it never ended).

    ``run`` tells one recorder's calls from another's in the same file; ``number`` counts them as they began.
    ``member`` says whose call it was, such as ``client-1/consumer-3``. An outcome is unknown where nothing proves
    that the call was done, or that it was not.
    """

    run: str
    number: int
    member: str
    thread: str
    operation: str
    began: float
    ended: float | None = None
    outcome: Outcome = "unknown"
    error: str | None = None
    topic: str | None = None
    group: str | None = None
    logs: tuple[Log, ...] = ()
    sent: tuple[Sent, ...] = ()
    received: tuple[Received, ...] = ()
    settled: tuple[Settled, ...] = ()
    positions: tuple[GroupPosition, ...] = ()
    watermarks: tuple[Watermarks, ...] = ()

    @property
    def size(self) -> int:
        """What it counts for in a recorder's limit: one, and one for each message."""
        return 1 + sum(len(sent.rows) for sent in self.sent) + sum(len(each.coordinates) for each in self.received)


def digest(payload: bytes) -> bytes:
    """What a recording has of a payload: eight bytes that differ where payloads do."""
    return blake2b(payload, digest_size=8).digest()


def column(payloads: Sequence[bytes | None], kind: Payloads) -> tuple[bytes | None, ...]:
    """A column of payloads as it is recorded."""
    if kind == "value":
        return tuple(payloads)
    if kind == "none":
        return (None,) * len(payloads)
    return tuple(None if payload is None else digest(payload) for payload in payloads)
