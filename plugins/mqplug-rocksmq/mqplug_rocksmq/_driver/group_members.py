"""The members of each group. All of them have a consumer in the process that owns the store.

In the modes shared and key_shared a member takes single messages of all logs, from the group's shared state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

from mqplug import Batch, ConsumerBusy, Log, Position, Timeout
from mqplug.spi import ConsumerOptions, Listener, Mode, Numbers, Offer, Settlement
from mqplug.spi.groups import Roster
from mqplug_rocksmq._driver.consumer import GroupConsumer, JoinContext
from mqplug_rocksmq._driver.shared_group import SharedGroup
from mqplug_rocksmq._store.store import Store

_groups: WeakKeyDictionary[Store, dict[str, GroupMembers]] = WeakKeyDictionary()


class GroupMembers:
    """The members of one group."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.roster = Roster()
        self.changing = Lock()  # held while a member joins or leaves
        self._settled = Lock()
        self._sharing: SharedGroup | None = None

    @contextmanager
    def joining(self, mode: Mode, timeout: float) -> Iterator[None]:
        """Keep the group unchanged while one member joins. Raise ``ConsumerBusy`` if the members' mode forbids it."""
        with self.still(timeout):
            if len(self.roster) and (mode == "exclusive" or mode != self.roster.mode):
                raise ConsumerBusy(
                    f"the group {self.group!r} has {len(self.roster)} members in mode {self.roster.mode!r}, so no"
                    f" consumer can join in mode {mode!r}",
                    fix="Close the other consumers first",
                )
            yield

    def sharing(self, store: Store, mode: Mode) -> SharedGroup:
        """Return the state of a shared group. It lives until the last member leaves."""
        if self._sharing is None:
            self._sharing = SharedGroup(store, self.group, by_key=mode == "key_shared")
        return self._sharing

    def left(self) -> None:
        """Forget the state of a shared group if the last member has left."""
        if not len(self.roster):
            self._sharing = None

    @contextmanager
    def absent(self, timeout: float) -> Iterator[None]:
        """Prevent members from joining until the block ends. Raise ``ConsumerBusy`` if the group has members."""
        with self.still(timeout):
            if len(self.roster):
                raise ConsumerBusy(
                    f"the group {self.group!r} has {len(self.roster)} members", fix="Close its consumers first"
                )
            yield

    @contextmanager
    def still(self, timeout: float) -> Iterator[None]:
        """Keep the group unchanged until the block ends: no member joins, and no other caller changes it."""
        if not self._settled.acquire(timeout=max(0.0, timeout)):
            raise Timeout(f"the group {self.group!r} was being joined or changed for {timeout:g} s")
        try:
            yield
        finally:
            self._settled.release()


def members_of(store: Store, group: str) -> GroupMembers:
    """Return the members of a group."""
    return _groups.setdefault(store, {}).setdefault(group, GroupMembers(group))


def roster_of(store: Store, group: str) -> Roster:
    """Return the roster of a group, which is empty if it never had a member."""
    found = _groups.get(store, {}).get(group)
    return Roster() if found is None else found.roster


def member_counts(store: Store) -> Mapping[str, int]:
    """Return the number of members of each group that ever had any."""
    return {group: len(each.roster) for group, each in dict(_groups.get(store, {})).items()}


def add_partitions_to_members(store: Store, known: Log, added: Iterable[Log]) -> None:
    """Distribute the new partitions of a topic among the members that read it."""
    for each in list(_groups.get(store, {}).values()):
        each.roster.extend(known, added)


class SharedMember(GroupConsumer):
    """A member that takes messages that no other member has. It also waits for messages that become free again."""

    _shares = True

    def __init__(
        self, store: Store, present: GroupMembers, options: ConsumerOptions, listener: Listener, context: JoinContext
    ) -> None:
        self._present = present
        with present.changing:
            self._sharing = present.sharing(store, options.mode)
            super().__init__(store, present.group, options, present.roster, listener, context)
            self._sharing.join(self, self._bell.ring, options.max_processing, elsewhere=context.elsewhere is not None)
            self.resumed = self._sharing.resume(self, context.holding)

    def _next(self, log: Log, most: int) -> Batch | None:
        return self._sharing.take(self, log, most)

    def offer(self, most: int) -> Offer | None:
        """Offer the next messages of one log. They are no member's before they are handed out."""
        if self._seat.has_changes:
            return None
        for log in self._active():
            if offer := self._sharing.offer(self, log, most):
                self._offsets[log] = self._offsets.pop(log)  # to the end: every log gets its turn
                return offer
        return None

    def _max_wait(self, timeout: float) -> float:
        return min(timeout, self._sharing.seconds_to_next_free(self._active()))

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self._check_held(positions)
        self._sharing.seek(positions, timeout)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Count removed messages before these positions as acked. Nothing else changes."""
        self._check_held(positions)
        self._sharing.pass_over(positions, timeout)

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        """Keep a message leased until it is settled."""
        self._sharing.stop_clock(self, log, coordinates)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int:
        """Store acks and returns, except for messages that this member no longer has. Return how many acks are late."""
        return self._sharing.settle(self, settled, timeout)

    def close(self, timeout: float) -> None:
        with self._present.changing:
            self._sharing.leave(self)
            super().close(timeout)
            self._present.left()
