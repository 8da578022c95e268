"""Groups: how far each one has come in each log, stored exactly, gaps included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mqplug import StorageFull
from mqplug_rocksmq._engine.engine import Engine
from mqplug_rocksmq._engine.rocks import Changes
from mqplug_rocksmq._format.hand_out_notes import notes_key
from mqplug_rocksmq._format.keys import (
    GROUP,
    StoredPosition,
    after_prefix,
    group_key,
    group_of,
    log_key,
    log_of,
    position_value,
    read_position,
)
from mqplug_rocksmq._store.topics import TopicTable

AddChanges = Callable[[Changes], None]


class GroupPositions:
    """The stored places of groups. A group is on a topic when it has a place in one of its logs."""

    def __init__(self, engine: Engine, topics: TopicTable) -> None:
        self._engine = engine
        self._topics = topics

    def position(self, group: str, log: int) -> StoredPosition | None:
        """Return how far a group has come in a log, or None where it has no place yet."""
        with self._engine.lock:
            self._engine.check()
            value = self._engine.pages.get(group_key(log, group))
        return None if value is None else read_position(value)

    def store(
        self, group: str, places: Mapping[int, StoredPosition], timeout: float | None, also: Sequence[AddChanges] = ()
    ) -> None:
        """Store places, safely, in logs that were not deleted; and what *also* has to be part of that."""

        def plan(changes: Changes) -> None:
            for log, place in places.items():
                changes.put(group_key(self._topics.log(log).number, group), position_value(place))
            for each in also:
                each(changes)

        self._engine.change(plan, timeout)

    def notes(self, log: int, group: str) -> list[bytes]:
        """Return the notes of what was handed out of a log to members that share it, the oldest first."""
        with self._engine.lock:
            self._engine.check()
            return [value for _, value in self._engine.pages.scan(notes_key(log, group))]

    def write_unawaited(self, plan: AddChanges) -> None:
        """Write something down that nobody waits for. It outlives the process; on a full disk it is left out."""
        engine = self._engine
        with engine.lock:
            try:
                changes = engine.changes(frees=True)
                plan(changes)
                engine.write_unawaited(changes)
            except StorageFull:
                return

    def start(
        self, group: str, places: Mapping[int, StoredPosition], timeout: float | None
    ) -> dict[int, StoredPosition]:
        """Store places where the group has none yet; return the places it has then."""

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
        """Forget a group's places in these logs; and do what *also* has to be part of that."""

        def plan(changes: Changes) -> None:
            for each in also:
                each(changes)
            for log in logs:
                changes.delete(group_key(log, group))
                notes = notes_key(log, group)
                changes.delete_range(notes, after_prefix(notes))

        self._engine.change(plan, timeout)

    def names(self, log: int | None = None) -> list[str]:
        """Return the groups that have a place in this log, or in any."""
        with self._engine.lock:
            self._engine.check()
            found = self._engine.pages.scan(GROUP if log is None else log_key(log, GROUP))
        return sorted({group_of(key) for key, _ in found})

    def logs(self, group: str) -> dict[int, StoredPosition]:
        """Return all places of a group."""
        with self._engine.lock:
            self._engine.check()
            found = self._engine.pages.scan(GROUP)
        return {log_of(key): read_position(value) for key, value in found if group_of(key) == group}
