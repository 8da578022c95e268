"""Stored positions of groups: one per group and log, with the acked ranges after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mqplug_rocksmq._engine.engine import Engine
from mqplug_rocksmq._engine.rocks import Changes
from mqplug_rocksmq._format.hand_out_notes import notes_key
from mqplug_rocksmq._format.keys import (
    GROUP,
    StoredPosition,
    group_key,
    group_of,
    log_key,
    log_of,
    position_value,
    read_position,
)
from mqplug_rocksmq._store.hand_outs import HandOutJournal
from mqplug_rocksmq._store.topics import AddChanges, TopicTable


class GroupPositions:
    """The stored positions of groups. A group is on a topic if it has a position in one of its logs."""

    def __init__(self, engine: Engine, topics: TopicTable, journal: HandOutJournal) -> None:
        self._engine = engine
        self._topics = topics
        self._journal = journal

    def position(self, group: str, log: int) -> StoredPosition | None:
        """Return a group's position in a log, or None if it has none yet."""
        with self._engine.lock:
            self._engine.check()
            value = self._engine.pages.get(group_key(log, group))
        return None if value is None else read_position(value)

    def store(
        self, group: str, places: Mapping[int, StoredPosition], timeout: float | None, also: Sequence[AddChanges] = ()
    ) -> None:
        """Store positions safely, together with the changes *also*. Raise ``TopicNotFound`` if a log was deleted."""

        def plan(changes: Changes) -> None:
            for log, place in places.items():
                changes.put(group_key(self._topics.log(log).number, group), position_value(place))
            for each in also:
                each(changes)

        self._engine.change(plan, timeout)

    def start(
        self, group: str, places: Mapping[int, StoredPosition], timeout: float | None
    ) -> dict[int, StoredPosition]:
        """Store positions where the group has none yet. Return all of its positions in these logs."""

        def plan(changes: Changes) -> dict[int, StoredPosition]:
            held = dict(places)
            for log, place in places.items():
                key = group_key(self._topics.log(log).number, group)
                known = self._engine.pages.get(key)
                if known is None:
                    changes.put(key, position_value(place))
                else:
                    held[log] = read_position(known)
            return held

        return self._engine.change(plan, timeout)

    def delete(self, group: str, logs: tuple[int, ...], timeout: float | None, also: Sequence[AddChanges] = ()) -> None:
        """Delete a group's positions and notes in these logs, together with the changes *also*."""
        forgotten = [self._journal.forget(notes_key(log, group)) for log in logs]

        def plan(changes: Changes) -> None:
            for each in (*also, *forgotten):
                each(changes)
            for log in logs:
                changes.delete(group_key(log, group))

        self._engine.change(plan, timeout)

    def names(self, log: int | None = None) -> list[str]:
        """Return the groups that have a position in this log, or in any log."""
        with self._engine.lock:
            self._engine.check()
            found = self._engine.pages.scan(GROUP if log is None else log_key(log, GROUP))
        return sorted({group_of(key) for key, _ in found})

    def logs(self, group: str) -> dict[int, StoredPosition]:
        """Return all positions of a group, by log."""
        with self._engine.lock:
            self._engine.check()
            found = self._engine.pages.scan(GROUP)
        return {log_of(key): read_position(value) for key, value in found if group_of(key) == group}
