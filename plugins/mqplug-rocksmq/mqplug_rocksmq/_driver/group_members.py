"""Who reads together: the members of each group, all of them in the process that owns the store."""

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
        self.changing = Lock()  # while one takes its seat, or leaves it
        self._settled = Lock()
        self._sharing: SharedGroup | None = None

    @contextmanager
    def joining(self, mode: Mode, timeout: float) -> Iterator[None]:
        """While one joins; ``ConsumerBusy`` where members have another mode, or one wants to be the only one."""
        with self.still(timeout):
            if len(self.roster) and (mode == "exclusive" or mode != self.roster.mode):
                raise ConsumerBusy(
                    f"the group {self.group!r} has members as {self.roster.mode!r}: nobody joins it as {mode!r}",
                    fix="Close the other consumers first",
                )
            yield

    def sharing(self, store: Store, mode: Mode) -> SharedGroup:
        """Return what those that share have; it lives as long as there are members."""
        if self._sharing is None:
            self._sharing = SharedGroup(store, self.group, by_key=mode == "key_shared")
        return self._sharing

    def left(self) -> None:
        """One has left."""
        if not len(self.roster):
            self._sharing = None

    @contextmanager
    def absent(self, timeout: float) -> Iterator[None]:
        """While nobody may join; ``ConsumerBusy`` where anybody did."""
        with self.still(timeout):
            if len(self.roster):
                raise ConsumerBusy(f"the group {self.group!r} has members", fix="Close its consumers first")
            yield

    @contextmanager
    def still(self, timeout: float) -> Iterator[None]:
        """While nobody joins, and nothing of the group is changed from outside."""
        if not self._settled.acquire(timeout=max(0.0, timeout)):
            raise Timeout(f"the group {self.group!r} is being joined or changed, which did not end in time")
        try:
            yield
        finally:
            self._settled.release()


def members_of(store: Store, group: str) -> GroupMembers:
    """Return the members of a group."""
    return _groups.setdefault(store, {}).setdefault(group, GroupMembers(group))


def member_counts(store: Store) -> Mapping[str, int]:
    """Return how many members each group has that had any."""
    return {group: len(each.roster) for group, each in dict(_groups.get(store, {})).items()}


def add_partitions_to_members(store: Store, known: Log, added: Iterable[Log]) -> None:
    """Have the members that read a topic read its new partitions too."""
    for each in list(_groups.get(store, {}).values()):
        each.roster.extend(known, added)
