"""The data of a recording: calls, with the messages that they sent, received or settled."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

import attrs

from mqplug import Log, Position, Watermarks
from mqplug.spi import GroupPosition, Numbers

Outcome = Literal["ok", "failed", "unknown"]
Payloads = Literal["digest", "value", "none"]


@attrs.frozen
class Sent:
    """The messages of one call that went to one partition, as columns of one length.

    ``rows`` are their indexes in the call. ``partition`` is -1 if the driver chose it. ``log`` is the log that stored
    them. The recorder's ``payloads`` selects what ``keys`` and ``values`` hold: digests, the bytes, or None.
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
    """A batch as the driver delivered it: columns of one length, and the position after it."""

    log: Log
    coordinates: tuple[Numbers, ...]
    keys: tuple[bytes | None, ...]
    values: tuple[bytes | None, ...]
    attempts: tuple[int, ...]
    next_position: Position


@attrs.frozen
class Settled:
    """The settled messages of one log in a shared group: acked or returned."""

    log: Log
    acked: tuple[Numbers, ...]
    returned: tuple[Numbers, ...]


@attrs.frozen(kw_only=True)
class Call:
    """One call, from ``began`` to ``ended`` (``time.monotonic``; None if it never ended).

    ``run`` identifies the recorder among others that write to the same file. ``number`` counts the calls as they began.
    ``member`` names the caller, such as ``client-1/consumer-3``. The outcome is unknown unless something proves that
    the call was done, or that it was not.
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
        """The call's share of the recorder's limit: one, plus one for each message."""
        return 1 + sum(len(sent.rows) for sent in self.sent) + sum(len(each.coordinates) for each in self.received)


def digest(payload: bytes) -> bytes:
    """Return an eight-byte hash of a payload, as recordings keep it."""
    return blake2b(payload, digest_size=8).digest()


def column(payloads: Sequence[bytes | None], kind: Payloads) -> tuple[bytes | None, ...]:
    """Return a column of payloads in the form that ``kind`` selects."""
    if kind == "value":
        return tuple(payloads)
    if kind == "none":
        return (None,) * len(payloads)
    return tuple(None if payload is None else digest(payload) for payload in payloads)
