"""Groups: list, describe, move and delete them without consuming. Errors name the members that are in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import attrs

from mqplug._base.deadline import Deadline
from mqplug._consume.start_positions import ResetTarget, by_log, check_start, refuse_lost, resolve
from mqplug._model.errors import ConsumerBusy, Error, GroupNotFound, Unsupported
from mqplug._model.ids import MessageId
from mqplug._model.log import GroupDescription
from mqplug._model.position import EARLIEST, After, Before, Position, Start
from mqplug.spi._actions import GroupInfo, GroupPosition

if TYPE_CHECKING:
    from mqplug._client.topics import Topics
    from mqplug._model.log import Log
    from mqplug._plugins.backend import Backend

NAMING_S: Final = 5.0  # how long an error waits for the members' names
MAX_NAMED_MEMBERS: Final = 5  # in the text of an error

Places = Mapping[int, Position | GroupPosition]


class Groups:
    """The groups of one connection."""

    def __init__(self, backend: Backend, topics: Topics) -> None:
        self._backend = backend
        self._topics = topics

    def all(self, topic: str | None, deadline: Deadline) -> list[GroupInfo]:
        """List every group with a position, on one topic or on any."""
        if topic is not None:
            self._topics.find(topic, deadline)
        found = self._backend.list_groups(topic, deadline)
        return sorted(found, key=lambda group: group.name)

    def describe(self, group: str, deadline: Deadline) -> GroupDescription:
        """Describe a group. Raise ``GroupNotFound`` if it has neither a position nor a member."""
        try:
            return describe(self._backend, group, deadline)
        except GroupNotFound as error:
            raise self._not_found(group, None, deadline) from error

    def positions(self, group: str, topic: str, deadline: Deadline) -> dict[int, GroupPosition]:
        """Return the group's positions in a topic, by partition."""
        logs = self._topics.find(topic, deadline).logs
        found = self.stored(group, {topic: logs}, deadline)
        return {log.partition: found[log] for log in logs if log in found}

    def stored(self, group: str, logs: Mapping[str, Sequence[Log]], deadline: Deadline) -> Mapping[Log, GroupPosition]:
        """Return the group's positions in these topics. Raises ``GroupNotFound`` if one of them has none."""
        every = [log for each in logs.values() for log in each]
        found = self._backend.group_positions(group, every, deadline)
        for topic, partitions in logs.items():
            if not any(log in found for log in partitions):
                raise self._not_found(group, topic, deadline)
        return found

    def delete(self, group: str, deadline: Deadline) -> None:
        """Delete a group."""
        with naming_members(self._backend, group, deadline):
            self._backend.delete_group(group, deadline)

    def reset(
        self, group: str, topic: str, to: ResetTarget, *, must_exist: bool, lenient: bool, deadline: Deadline
    ) -> None:
        """Move a group without members. Partitions that ``to`` does not name stay, or are placed at EARLIEST."""
        target = _checked(to)
        logs = self._topics.find(topic, deadline).logs
        known = self._backend.group_positions(group, logs, deadline)
        if must_exist and not known:
            raise self._not_found(group, topic, deadline)
        moved = self._named(target, logs, lenient, deadline)
        fresh = [log for log in logs if log not in moved and log not in known]
        moved |= _plain(self._backend.resolve(EARLIEST, fresh, deadline))
        if moved:
            with naming_members(self._backend, group, deadline):
                self._backend.move_group(group, moved, deadline)

    def _not_found(self, group: str, topic: str | None, deadline: Deadline) -> GroupNotFound:
        """Return the error for an unknown group, with a similar name if there is one."""
        near: list[str] = []
        with suppress(Error):
            there = [info.name for info in self._backend.list_groups(topic, deadline)]
            near = get_close_matches(group, there, 1)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        if topic is None:
            return GroupNotFound(
                f"the group {group!r} has no position and no members", fix=f"{meant}List the groups with groups()"
            )
        return GroupNotFound(
            f"the group {group!r} has no position on {topic!r}",
            topic=topic,
            fix=f"{meant}List the groups of the topic with groups({topic!r}), or create the group with reset_group()",
        )

    def _named(
        self, target: Start | Places, logs: Sequence[Log], lenient: bool, deadline: Deadline
    ) -> dict[Log, GroupPosition]:
        if isinstance(target, Mapping):
            named = {log: _place(each) for log, each in by_log(self._backend, target, logs).items()}
        else:
            named = _plain(resolve(self._backend, target, logs, deadline, whole=True))
            if not isinstance(target, Before | After | Position):
                return named  # these starts always resolve to retained messages
        if lenient:
            return self._retained(named, deadline)
        refuse_lost(self._backend, {log: at.position for log, at in named.items()}, deadline)
        return named

    def _retained(self, named: Mapping[Log, GroupPosition], deadline: Deadline) -> dict[Log, GroupPosition]:
        """Return the positions. Replace one that retention removed by that of the first retained message."""
        marks = self._backend.watermarks(list(named), None, deadline)
        return {log: _not_before(at, marks[log].low) for log, at in named.items()}


def _checked(to: ResetTarget) -> Start | Places:
    if isinstance(to, Mapping):
        return to
    return Before(to) if isinstance(to, MessageId) else check_start(to)


def _plain(positions: Mapping[Log, Position]) -> dict[Log, GroupPosition]:
    return {log: GroupPosition(position) for log, position in positions.items()}


def _place(given: Position | GroupPosition) -> GroupPosition:
    return given if isinstance(given, GroupPosition) else GroupPosition(given)


def _not_before(at: GroupPosition, low: Position) -> GroupPosition:
    if at.position >= low:
        return at
    acked = tuple(span for span in at.acked if span[0] >= low.coordinates)
    return attrs.evolve(at, position=low, acked=acked)


def describe(backend: Backend, group: str, deadline: Deadline) -> GroupDescription:
    """Return the driver's description of the group, or one derived from its positions if the driver has none."""
    try:
        return backend.describe_group(group, deadline)
    except Unsupported:  # an optional action
        return _described_by_positions(backend, group, deadline)


def _described_by_positions(backend: Backend, group: str, deadline: Deadline) -> GroupDescription:
    """Look for the group's positions on all topics."""
    found = [each for each in backend.list_groups(None, deadline) if each.name == group]
    if not found:
        raise GroupNotFound(f"there is no group {group!r}")
    names = backend.list_topics(deadline)
    logs = [log for topic in backend.topics(names, deadline) for log in topic.logs] if names else []
    positions = backend.group_positions(group, logs, deadline)
    topics = tuple(sorted({log.topic for log in positions}))
    return GroupDescription(group, topics, () if found[0].members == 0 else None)


@contextmanager
def naming_members(backend: Backend, group: str, deadline: Deadline) -> Iterator[None]:
    """Add the names of the group's members to a ``ConsumerBusy``, if the backend reports them in time."""
    try:
        yield
    except ConsumerBusy as error:
        with suppress(Error):
            found = backend.describe_group(group, Deadline(deadline.remaining(NAMING_S)))
            _name(error, found)
        raise


def _name(error: ConsumerBusy, group: GroupDescription) -> None:
    if not group.members:
        return
    error.members = group.members
    named = ", ".join(map(str, group.members[:MAX_NAMED_MEMBERS]))
    more = len(group.members) - MAX_NAMED_MEMBERS
    error.message += f"; its members: {named}" + (f" and {more} more" if more > 0 else "")
