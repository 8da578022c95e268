"""Descriptions of groups, also where the driver has none, and errors that name the members in the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from mqplug._base.deadline import Deadline
from mqplug._model.errors import ConsumerBusy, Error, GroupNotFound, Unsupported
from mqplug._model.group_description import GroupDescription

if TYPE_CHECKING:
    from mqplug._plugins.backend import Backend
    from mqplug.spi._drivers import Connection

NAMING_S: Final = 5.0  # an error waits this long for the names of members
MAX_NAMED_MEMBERS: Final = 5  # in the text of an error


def describe(backend: Backend, connection: Connection, group: str, deadline: Deadline) -> GroupDescription:
    """Return the group as the driver describes it, or by its positions where the driver does not."""
    try:
        return backend.describe_group(connection, group, deadline)
    except Unsupported:  # an optional action
        return _described_by_positions(backend, connection, group, deadline)


def _described_by_positions(
    backend: Backend, connection: Connection, group: str, deadline: Deadline
) -> GroupDescription:
    """Look for the group's positions on all topics."""
    found = [each for each in backend.list_groups(connection, None, deadline) if each.name == group]
    if not found:
        raise GroupNotFound(f"there is no group {group!r}")
    names = backend.list_topics(connection, deadline)
    logs = [log for topic in backend.topics(connection, names, deadline) for log in topic.logs] if names else []
    positions = backend.group_positions(connection, group, logs, deadline)
    topics = tuple(sorted({log.topic for log in positions}))
    return GroupDescription(group, topics, () if found[0].members == 0 else None)


@contextmanager
def naming_members(backend: Backend, connection: Connection, group: str, deadline: Deadline) -> Iterator[None]:
    """Add the names of the group's members to a ``ConsumerBusy``, as far as they can be had."""
    try:
        yield
    except ConsumerBusy as error:
        with suppress(Error):
            found = backend.describe_group(connection, group, Deadline(deadline.remaining(NAMING_S)))
            _name(error, found)
        raise


def _name(error: ConsumerBusy, group: GroupDescription) -> None:
    if not group.members:
        return
    error.members = group.members
    named = ", ".join(map(str, group.members[:MAX_NAMED_MEMBERS]))
    more = len(group.members) - MAX_NAMED_MEMBERS
    error.message += f"; its members: {named}" + (f" and {more} more" if more > 0 else "")
