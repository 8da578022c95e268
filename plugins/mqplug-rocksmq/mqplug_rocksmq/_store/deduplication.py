"""Which sends of other processes were stored, so that one that is sent again, to the next owner, is stored once.

A producer in another process numbers its sends. The number of a send and where it was stored are written together with
its pages, into one of a few slots that the producer has: as many as it may have sends on their way.
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

SLOT_COUNT: Final = 64  # sends that a producer may have on their way

_SLOT: Final = Struct(">H")
_SENT: Final = Struct("<QIQ")


class Origin(NamedTuple):
    """Who sent something: the producer, and which of its sends this is. ``again``: it may be stored already."""

    producer: bytes  # 16 bytes
    sequence: int
    again: bool = False

    @property
    def key(self) -> bytes:
        """The key of its slot."""
        return ORIGIN + self.producer + _SLOT.pack(self.sequence % SLOT_COUNT)

    def note(self, changes: Changes, log: int, first: int) -> None:
        """Write down where it is stored."""
        changes.put(self.key, _SENT.pack(self.sequence, log, first))

    def find(self, value: bytes | None, log: int) -> int | None:
        """Return the offset that it was stored at in this log, as its slot says; None if it was not."""
        if value is None:
            return None
        sequence, where, first = _SENT.unpack(value)
        return int(first) if (sequence, where) == (self.sequence, log) else None


class OnceRequest(NamedTuple):
    """What another process wants done once: its name is noted with what is done, so that it can be sent again.

    ``again``: it may be done already.
    """

    name: bytes  # 16 bytes
    again: bool = False

    @property
    def key(self) -> bytes:
        """The key of its note, which goes as those of producers go that do not come back."""
        return ORIGIN + self.name + _SLOT.pack(0)

    def note(self, changes: Changes) -> None:
        """Write down that it is done."""
        changes.put(self.key, _SENT.pack(0, 0, 0))


class Deduplication:
    """The producers that are known to a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._present: dict[bytes, int] = {}
        self._missed: set[bytes] = set()

    def has_done(self, request: OnceRequest | None) -> bool:
        """Whether this was done, by this owner or by one before it."""
        if request is None or not request.again:
            return False
        with self._engine.lock:
            self._engine.check()
            return self._engine.pages.get(request.key) is not None

    def join(self, producer: bytes) -> None:
        """A producer is connected."""
        with self._lock:
            self._present[producer] = self._present.get(producer, 0) + 1

    def leave(self, producer: bytes, *, for_good: bool) -> None:
        """A producer is not connected any more; *for_good*: what it sent is not sent again."""
        with self._lock:
            self._present[producer] = self._present.get(producer, 1) - 1
            if self._present[producer]:
                return
            del self._present[producer]
        if for_good:
            self._forget([producer])

    def forget_absent(self) -> None:
        """Forget the producers that did not come back since the last time that this was called."""
        with self._engine.lock:
            self._engine.check()
            found = self._engine.pages.scan(ORIGIN)
        with self._lock:
            absent = {key[1:17] for key, _ in found} - set(self._present)
            forgotten, self._missed = absent & self._missed, absent
        if forgotten:
            self._forget(forgotten)

    def _forget(self, producers: Iterable[bytes]) -> None:
        with self._engine.lock:
            changes = self._engine.changes(frees=True)
            for producer in producers:
                changes.delete_range(ORIGIN + producer, after_prefix(ORIGIN + producer))
            self._engine.write(changes)
