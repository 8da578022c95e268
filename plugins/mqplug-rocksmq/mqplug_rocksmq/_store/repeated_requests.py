"""Sends and requests of other processes, which may repeat them to the next owner: each is done once.

A producer in another process numbers its sends. The number and the offset of a send are written together with its
pages, into one of the producer's slots: one for each send that it may have in flight.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from mqplug_rocksmq._format.keys import ORIGIN, after_prefix

if TYPE_CHECKING:
    from mqplug_rocksmq._engine.engine import Engine
    from mqplug_rocksmq._engine.rocks import Changes

SLOT_COUNT: Final = 64  # sends that a producer may have in flight

_SLOT: Final = Struct(">H")
_SENT: Final = Struct("<QIQ")


class Origin(NamedTuple):
    """The producer and sequence number of a send. ``again``: it may already be stored."""

    producer: bytes  # 16 bytes
    sequence: int
    again: bool = False

    @property
    def key(self) -> bytes:
        """The key of its slot."""
        return ORIGIN + self.producer + _SLOT.pack(self.sequence % SLOT_COUNT)

    def note(self, changes: Changes, log: int, first: int) -> None:
        """Record the log and first offset of the send."""
        changes.put(self.key, _SENT.pack(self.sequence, log, first))

    def find(self, value: bytes | None, log: int) -> int | None:
        """Return the offset at which the send was stored in this log, by its slot's value, or None."""
        if value is None:
            return None
        sequence, where, first = _SENT.unpack(value)
        return int(first) if (sequence, where) == (self.sequence, log) else None


class OnceRequest(NamedTuple):
    """A request of another process that must be done once: its name is recorded together with its effect.

    ``again``: it may already be done.
    """

    name: bytes  # 16 bytes
    again: bool = False

    @property
    def key(self) -> bytes:
        """The key of its record, which is removed like the record of a producer that does not return."""
        return ORIGIN + self.name + _SLOT.pack(0)

    def note(self, changes: Changes) -> None:
        """Record that the request is done."""
        changes.put(self.key, _SENT.pack(0, 0, 0))


class Deduplication:
    """The producers and requests that a store remembers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._present: dict[bytes, int] = {}
        self._missed: set[bytes] = set()

    def has_done(self, request: OnceRequest | None) -> bool:
        """Return whether this or an earlier owner has done a request."""
        if request is None or not request.again:
            return False
        with self._engine.lock:
            self._engine.check()
            return self._engine.pages.get(request.key) is not None

    def join(self, producer: bytes) -> None:
        """Record that a producer connected."""
        with self._lock:
            self._present[producer] = self._present.get(producer, 0) + 1

    def leave(self, producer: bytes, *, for_good: bool) -> None:
        """Record that a producer disconnected. *for_good*: it will not repeat any send."""
        with self._lock:
            self._present[producer] = self._present.get(producer, 1) - 1
            if self._present[producer]:
                return
            del self._present[producer]
        if for_good:
            self._forget([producer])

    def forget_absent(self) -> None:
        """Forget the producers that are absent now and were absent at the previous call."""
        with self._engine.lock:
            self._engine.check()
            found = self._engine.pages.scan(ORIGIN)
        with self._lock:
            absent = {key[1:17] for key, _ in found} - set(self._present)
            forgotten, self._missed = absent & self._missed, absent
        if forgotten:
            self._forget(forgotten)

    def _forget(self, producers: Iterable[bytes]) -> None:
        known = list(producers)
        self._engine.retried(lambda: self._forget_now(known), None)

    def _forget_now(self, producers: Iterable[bytes]) -> None:
        with self._engine.lock:
            changes = self._engine.changes(frees=True)
            for producer in producers:
                changes.delete_range(ORIGIN + producer, after_prefix(ORIGIN + producer))
            self._engine.write(changes)
