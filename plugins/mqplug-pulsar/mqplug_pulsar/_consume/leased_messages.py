"""The leases of a member of a shared group on one log: messages that wait, are handed out, or are acked.

The broker hands out entries, which are single messages or whole batches, and takes back only whole entries. So a nacked
message of a batch, or one whose key must keep its order, waits here and is handed out again from here. Only an entry of
one message goes back to the broker, which gives it to any member and counts its deliveries.

This module has no lock: the member has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

from mqplug.spi import Numbers
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.note_texts import Entry

NATIVE_RETURN_S = 0.12  # the client library returns a nacked message after this time or a little more
MAX_GIVEN_AWAY = 10_000  # remembered messages that went back to the broker because their lease expired


class State(Enum):
    """The state of a message of this member."""

    WAITING = "waiting"  # will be handed out, perhaps again
    IN_HAND = "in hand"
    RETURNING = "returning"  # nacked: the broker gets it back when its delay is over
    ACKED = "acked"  # and perhaps not stored yet
    EXPIRED = "expired"  # was in hand for too long


class Lease:
    """One message of this member."""

    __slots__ = (
        "again", "asked_at", "attempt", "checked_at", "due", "ends", "id", "key", "message", "place", "size", "state",
        "stored",
    )  # fmt: skip

    def __init__(self, message: Any, since: float) -> None:
        self.message = message
        self.id = message.message_id()
        self.place = message_ids.coordinates(self.id)
        self.size = (message_ids.detail(self.id) or (1,))[0]
        self.key: str = message.partition_key()
        self.attempt: int = message.redelivery_count() + 1
        self.again = False
        """Whether this member has handed it out before. The broker does not count that."""
        self.state = State.WAITING
        self.stored = False
        """Whether the broker has the ack."""
        self.checked_at = since
        """When it arrived or was last found unacked: another member may have it too, and ack it."""
        self.asked_at = inf
        """Since when it waits for a check before it is handed out."""
        self.due = -inf
        self.ends = inf

    @property
    def entry(self) -> Entry:
        """Its ledger and entry."""
        return (self.place[0], self.place[1])


class LeasedMessages:
    """The leases of one log. With ``by_key`` the messages of a key are handed out in order."""

    def __init__(self, *, by_key: bool) -> None:
        self._by_key = by_key
        self._given_away: dict[Numbers, Lease | None] = {}  # went back to the broker unsettled; None: the group moved
        self._leases: dict[Numbers, Lease] = {}
        self.clear()

    def clear(self, *, moved: bool = False) -> None:
        """Forget all leases: the broker has the messages back, or the group was ``moved``, which ends their leases."""
        if moved:  # acked messages may come again, and are handed out then
            self._given_away = dict.fromkeys(self._given_away)
        for lease in self._leases.values():
            if lease.state is State.EXPIRED or (moved and lease.state is State.IN_HAND):
                self._note_given_away(lease, None if moved else lease)
        self._leases = {}
        self._entries: dict[Entry, list[Lease]] = {}
        self._ready: list[Numbers] = []
        self._delayed: list[tuple[float, Numbers]] = []
        self._returning: list[tuple[float, Numbers]] = []
        self._ends: list[tuple[float, Numbers]] = []
        self._keys: dict[str, list[Numbers]] = {}  # places of waiting messages
        self._expired: set[Entry] = set()

    # in and out --------------------------------------------------------------------------------------------

    def knows(self, place: Numbers) -> bool:
        """Return whether this member has the message already."""
        return place in self._leases

    def add(self, lease: Lease) -> Any:
        """Add a message that arrived. If it was acked, return the id to ack again: the broker forgot the ack."""
        if (known := self._leases.get(lease.place)) is not None:
            return known.id if known.state is State.ACKED else None
        if (former := self._given_away.get(lease.place)) is not None:  # kept: it may go back again before it is acked
            if former.state is State.ACKED:
                return lease.id
            lease.attempt = max(lease.attempt, former.attempt + 1)  # the broker may have forgotten the attempts
        self._leases[lease.place] = lease
        self._entries.setdefault(lease.entry, []).append(lease)
        self._wait(lease)
        return None

    def take(self, most: int, now: float, ends: float = inf) -> list[Lease]:
        """Return up to ``most`` messages to hand out, ascending."""
        while self._delayed and self._delayed[0][0] <= now:
            heappush(self._ready, heappop(self._delayed)[1])
        taken: list[Lease] = []
        if self._by_key and self._expired:
            return taken  # nothing until the member has given everything back
        while self._ready and len(taken) < most:
            lease = self._leases.get(heappop(self._ready))
            if lease is None or lease.state is not State.WAITING or lease.due > now or lease.entry in self._expired:
                continue
            if self._orders(lease):
                if self._first_of(lease.key) != lease.place:
                    continue  # it becomes ready when those before it are handed out
                heappop(self._keys[lease.key])
            lease.state, lease.ends = State.IN_HAND, ends
            taken.append(lease)
            if ends < inf:
                heappush(self._ends, (ends, lease.place))
            if self._orders(lease):
                self._announce_first(lease.key)
        return sorted(taken, key=lambda each: each.place)

    def put_back(self, leases: Iterable[Lease], now: float) -> None:
        """Return taken messages, to be handed out after they are checked."""
        for lease in leases:
            lease.state, lease.asked_at = State.WAITING, min(now, lease.asked_at)
            self._wait(lease)

    def check(self, is_acked: Callable[[Numbers], bool], now: float) -> list[Any]:
        """Mark the waiting messages that are acked, so that they are not handed out. Return their ids."""
        ids = []
        for entry, leases in list(self._entries.items()):
            for lease in leases:
                if lease.state is State.WAITING and is_acked(lease.place):
                    lease.state, lease.stored = State.ACKED, True
                    ids.append(lease.id)
                lease.checked_at = max(now, lease.checked_at)
            if all(each.stored for each in leases):
                self._forget(entry)
        return ids

    def ack(self, places: Iterable[Numbers]) -> list[Lease]:
        """Ack the messages that this member still has, and those whose acks failed. Return them.

        It has an expired message until it goes back to the broker, and again if it returns to this member.
        """
        acked = []
        for place in places:
            lease = self._leases.get(place)
            if lease is None or lease.state is State.RETURNING:
                continue
            was, lease.state = lease.state, State.ACKED
            acked.append(lease)
            self._given_away.pop(place, None)
            if was is State.EXPIRED and not any(each.state is was for each in self._entries[lease.entry]):
                self._expired.discard(lease.entry)
            elif was is State.WAITING and self._orders(lease):
                self._announce_first(lease.key)
        return acked

    def stop_clock(self, place: Numbers) -> None:
        """Stop the expiry of a message that is in hand, so that its ack may take as long as it needs."""
        if (lease := self._leases.get(place)) is not None:
            lease.ends = inf

    def take_given_away(self, places: Iterable[Numbers]) -> list[Lease | None]:
        """Return the leases that went back to the broker unsettled, each once; None if the group was moved since.

        Messages that were taken back since are left out.
        """
        gone = [place for place in places if place in self._given_away and place not in self._leases]
        leases = [self._given_away.pop(place) for place in gone]
        for lease in leases:
            if lease is not None and lease.state is State.ACKED:
                self._given_away[lease.place] = lease
        return [lease for lease in leases if lease is None or lease.state is not State.ACKED]

    def take_back(self, leases: Iterable[Lease]) -> list[Lease]:
        """Ack messages that went back to the broker and have reached no other member since. Return the acked ones."""
        acked = []
        for lease in leases:
            if lease.place in self._leases:  # it has just returned
                acked += self.ack([lease.place])
                continue
            lease.state = State.ACKED
            self._leases[lease.place] = self._given_away[lease.place] = lease  # a copy of it may still be in transit
            self._entries.setdefault(lease.entry, []).append(lease)
            acked.append(lease)
        return acked

    def _note_given_away(self, lease: Lease, kept: Lease | None) -> None:
        self._given_away[lease.place] = kept
        if len(self._given_away) > MAX_GIVEN_AWAY:
            del self._given_away[next(iter(self._given_away))]

    def acked_parts(self, entries: Iterable[Entry], noted: Mapping[Entry, int]) -> dict[Entry, int]:
        """Return, for each partly acked entry, a mask of its acked messages, including the noted acks."""
        parts = {}
        for entry in entries:
            mask = noted.get(entry, 0)
            for lease in self._entries[entry]:
                if lease.state is State.ACKED:
                    mask |= 1 << max(0, lease.place[2])
            if mask != (1 << self._entries[entry][0].size) - 1:
                parts[entry] = mask
        return parts

    def stored(self, leases: Iterable[Lease]) -> None:
        """Note that the broker has the acks of these messages. Forget entries without unacked messages."""
        for lease in leases:
            lease.stored = True
        for entry in {lease.entry for lease in leases}:
            if entry in self._entries and all(each.stored for each in self._entries[entry]):
                self._forget(entry)

    def give_back(self, place: Numbers, delay: float, now: float) -> None:
        """Return a message that is in hand, to be handed out again after the delay."""
        lease = self._leases.get(place)
        if lease is None or lease.state is not State.IN_HAND:
            return
        self._given_away.pop(place, None)
        lease.due, lease.asked_at = now + delay, inf
        if self._by_key or lease.size > 1:
            lease.attempt, lease.again, lease.state = lease.attempt + 1, True, State.WAITING
            self._wait(lease)
        else:
            lease.state = State.RETURNING
            heappush(self._returning, (lease.due - NATIVE_RETURN_S, place))

    # to the broker -----------------------------------------------------------------------------------------

    def due_returns(self, now: float) -> list[Any]:
        """Take out the entries that must be nacked at the broker now, and return an id of each."""
        self._expire(now)
        ids = []
        while self._returning and self._returning[0][0] <= now:
            lease = self._leases.get(heappop(self._returning)[1])
            if lease is not None and lease.state is State.RETURNING:
                ids.append(lease.id)
                self._forget(lease.entry)
        if not self._by_key:
            for entry in [entry for entry in self._expired if not self._in_hand(self._entries[entry])]:
                ids.append(self._entries[entry][0].id)
                for lease in self._entries[entry]:
                    if lease.state is State.EXPIRED:
                        self._note_given_away(lease, lease)
                self._forget(entry)
        return ids

    def next_return(self) -> float:
        """Return when to call ``due_returns`` next."""
        if self._expired:
            return -inf
        while self._ends and not self._ends_then(*self._ends[0]):
            heappop(self._ends)
        return min(
            self._returning[0][0] if self._returning else inf,
            self._ends[0][0] if self._ends else inf,
        )

    def nacked(self) -> list[Any]:
        """Return an id of each entry with a message that was handed out and then nacked or expired."""
        failed = (State.RETURNING, State.EXPIRED)
        return [
            leases[0].id
            for leases in self._entries.values()
            if any(each.state in failed or (each.again and each.state is State.WAITING) for each in leases)
        ]

    def expired_attempts(self) -> dict[Numbers, int]:
        """Return how often each expired message was handed out."""
        return {at: each.attempt for at, each in self._leases.items() if each.state is State.EXPIRED}

    def _expire(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            ends, place = heappop(self._ends)
            if self._ends_then(ends, place):
                lease = self._leases[place]
                lease.state = State.EXPIRED
                self._expired.add(lease.entry)

    def _ends_then(self, ends: float, place: Numbers) -> bool:
        lease = self._leases.get(place)
        return lease is not None and lease.state is State.IN_HAND and lease.ends == ends

    # asking ------------------------------------------------------------------------------------------------

    @property
    def has_in_hand(self) -> bool:
        """Whether messages are in hand, or acked but not stored."""
        return self._in_hand(self._leases.values())

    @property
    def is_empty(self) -> bool:
        """Whether this member has no messages."""
        return not self._leases

    def is_idle(self, now: float) -> bool:
        """Return whether every message could be handed out now, or is acked at the broker."""
        return all(each.stored or (each.state is State.WAITING and each.due <= now) for each in self._leases.values())

    @property
    def has_expired(self) -> bool:
        """Whether an expired message is not given back yet."""
        return bool(self._expired)

    def next_due(self) -> float:
        """Return when the next nacked message is due to be handed out again from here."""
        return self._delayed[0][0] if self._delayed else inf

    def _in_hand(self, leases: Iterable[Lease]) -> bool:
        return any(each.state is State.IN_HAND or (each.state is State.ACKED and not each.stored) for each in leases)

    # the order ---------------------------------------------------------------------------------------------

    def _wait(self, lease: Lease) -> None:
        if self._orders(lease):
            heappush(self._keys.setdefault(lease.key, []), lease.place)
            if self._first_of(lease.key) != lease.place:
                return
        self._announce(lease)

    def _announce(self, lease: Lease) -> None:
        if lease.due > 0:
            heappush(self._delayed, (lease.due, lease.place))
        else:
            heappush(self._ready, lease.place)

    def _orders(self, lease: Lease) -> bool:
        return self._by_key and bool(lease.key)

    def _first_of(self, key: str) -> Numbers | None:
        places = self._keys[key]
        while places and ((lease := self._leases.get(places[0])) is None or lease.state is not State.WAITING):
            heappop(places)
        return places[0] if places else None

    def _announce_first(self, key: str) -> None:
        first = self._first_of(key)
        if first is None:
            del self._keys[key]
        else:
            self._announce(self._leases[first])

    def _forget(self, entry: Entry) -> None:
        self._expired.discard(entry)
        for lease in self._entries.pop(entry):
            del self._leases[lease.place]
        if len(self._ends) > 2 * len(self._leases) + 1000:
            self._ends = [each for each in self._ends if self._ends_then(*each)]
            heapify(self._ends)
