"""The order of delivery: the waiting messages of a shared log, and which member may have the next one.

The cost of a call does not grow with the number of waiting messages. Entries of the heaps may be outdated; such entries
are dropped when they reach the top.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from heapq import heapify, heappop, heappush
from math import inf

from mqplug._model.id_text import Numbers


class Open:
    """A message that was read and is not acked: leased to a member until ``ends``, or waiting until it is ``due``."""

    __slots__ = ("attempt", "before", "coordinates", "due", "ends", "following", "idle", "key", "lapsed", "member")

    def __init__(self, coordinates: Numbers, key: bytes | None, before: Open | None) -> None:
        self.coordinates = coordinates
        self.key = key
        self.before = before  # the open message before it
        self.following: Open | None = None
        self.attempt = 1
        self.member: Hashable | None = None
        self.lapsed: Hashable | None = None  # the member whose lease ended, until another one takes the message
        self.ends = inf
        self.idle = False  # whether it waits, without a member
        self.due = -inf


class _Key:
    """A key: the member that has its messages, their number, and its waiting messages, the first of which is next."""

    __slots__ = ("count", "member", "waiting")

    def __init__(self) -> None:
        self.member: Hashable | None = None
        self.count = 0
        self.waiting: list[Numbers] = []


class Turns:
    """The ``messages`` that no member has. With ``by_key``, only the first waiting message of each key is ready."""

    def __init__(self, messages: Mapping[Numbers, Open], *, by_key: bool) -> None:
        self._messages = messages
        self._by_key = by_key
        self._keys: dict[bytes, _Key] = {}
        self._ready: dict[Hashable | None, list[Numbers]] = {None: []}  # for any member (None), or only one
        self._put_off: list[tuple[float, Numbers]] = []
        self.waiting: list[Numbers] = []
        """A heap of the waiting messages, with outdated entries."""

    def wait(self, each: Open, due: float = -inf) -> None:
        """Let a message wait, without a member, until it is due."""
        each.idle, each.due = True, due
        heappush(self.waiting, each.coordinates)
        if len(self.waiting) > 2 * len(self._messages) + 1000:
            self.waiting = [at for at, other in self._messages.items() if other.idle]
            heapify(self.waiting)
        if key := self._key_of(each):
            heappush(key.waiting, each.coordinates)
        if due > -inf:
            heappush(self._put_off, (due, each.coordinates))
        else:
            self._announce(each, key)

    def next(self, member: Hashable, now: float) -> Open | None:
        """Return the first due message that this member may have."""
        if not self.waiting:
            return None
        self._ripen(now)
        first = self._top(None)
        if self._by_key and (mine := self._top(member)) and (not first or mine.coordinates < first.coordinates):
            return mine
        return first

    def may_have(self, member: Hashable, each: Open) -> bool:
        """Return whether a member may have a message that comes after all waiting ones."""
        key = self._key_of(each)
        return key is None or (not key.waiting and key.member in {None, member})

    def may_keep(self, member: Hashable, each: Open) -> bool:
        """Return whether a member may continue with a message that it had before."""
        key = self._key_of(each)
        return key is None or key.member in {None, member}

    def taken(self, each: Open, member: Hashable) -> None:
        """Record that a member has taken this message."""
        each.idle = False
        if key := self._key_of(each):
            key.member, key.count = member, key.count + 1
            self._announce_first(key)

    def freed(self, each: Open) -> None:
        """Record that the member no longer has this message."""
        if key := self._key_of(each):
            key.count -= 1
            if not key.count:
                key.member = None
                self._announce_first(key)
                self._forget_key(each, key)

    def dropped(self, each: Open) -> None:
        """Remove a waiting message."""
        each.idle = False
        if key := self._key_of(each):
            self._announce_first(key)
            self._forget_key(each, key)

    def forget(self, member: Hashable) -> None:
        """Forget a member that has no messages and takes no more."""
        self._ready.pop(member, None)

    @property
    def first(self) -> Numbers | None:
        """Return the first waiting message, due or not."""
        return self._clean(self.waiting)

    def next_due(self, now: float) -> float:
        """Return when the next of the messages that are not due yet becomes due."""
        self._ripen(now)
        while self._put_off and not self._is_put_off(*self._put_off[0]):
            heappop(self._put_off)
        return self._put_off[0][0] if self._put_off else inf

    def _ripen(self, now: float) -> None:
        """Make messages ready that have become due."""
        while self._put_off and self._put_off[0][0] <= now:
            due, at = heappop(self._put_off)
            if self._is_put_off(due, at):
                each = self._messages[at]
                each.due = -inf
                self._announce(each, self._key_of(each))

    def _is_put_off(self, due: float, at: Numbers) -> bool:
        each = self._messages.get(at)
        return each is not None and each.idle and each.due == due

    def _key_of(self, each: Open) -> _Key | None:
        if not self._by_key or each.key is None:
            return None
        key = self._keys.get(each.key)
        if key is None:
            key = self._keys[each.key] = _Key()
        return key

    def _forget_key(self, each: Open, key: _Key) -> None:
        if each.key is not None and not key.count and not key.waiting:
            del self._keys[each.key]

    def _announce(self, each: Open, key: _Key | None) -> None:
        """Make a due message ready, unless an earlier message of its key waits."""
        if key is None:
            heappush(self._ready[None], each.coordinates)
        elif key.waiting[0] == each.coordinates:
            heappush(self._ready.setdefault(key.member, []), each.coordinates)

    def _announce_first(self, key: _Key) -> None:
        """Make the first message of a key ready, because it has changed or another member may have it."""
        at = self._clean(key.waiting)
        if at is not None and self._messages[at].due == -inf:
            heappush(self._ready.setdefault(key.member, []), at)

    def _top(self, owner: Hashable | None) -> Open | None:
        """Return the first ready message of this owner."""
        heap = self._ready.get(owner)
        while heap:
            each = self._messages.get(heap[0])
            if each is not None and each.idle and each.due == -inf:
                key = self._key_of(each)
                if key is None or (key.member == owner and key.waiting[0] == each.coordinates):
                    return each
            heappop(heap)
        return None

    def _clean(self, heap: list[Numbers]) -> Numbers | None:
        """Return the top of a heap, after dropping messages that no longer wait."""
        while heap:
            each = self._messages.get(heap[0])
            if each is not None and each.idle:
                return heap[0]
            heappop(heap)
        return None
