"""The members of each group. All of them have a consumer in the process that owns the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

from mqplug import ConsumerBusy, Log, Timeout
from mqplug.spi import Mode
from mqplug.spi.groups import Roster
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
        """Within, one member joins. Raise ``ConsumerBusy`` if the members' mode does not allow it."""
        with self.still(timeout):
            if len(self.roster) and (mode == "exclusive" or mode != self.roster.mode):
                raise ConsumerBusy(
                    f"the group {self.group!r} has {len(self.roster)} members in mode {self.roster.mode!r}, so that"
                    f" none can join in mode {mode!r}",
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
        """Within, no member can join. Raise ``ConsumerBusy`` if the group has members."""
        with self.still(timeout):
            if len(self.roster):
                raise ConsumerBusy(
                    f"the group {self.group!r} has {len(self.roster)} members", fix="Close its consumers first"
                )
            yield

    @contextmanager
    def still(self, timeout: float) -> Iterator[None]:
        """Within, no member can join, and nothing else changes the group from outside."""
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
    """Assign the new partitions of a topic among the members that read it."""
    for each in list(_groups.get(store, {}).values()):
        each.roster.extend(known, added)
