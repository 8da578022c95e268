"""Descriptions of groups: their topics and members."""

from __future__ import annotations

import attrs

from mqplug._model.log import Log


@attrs.frozen
class GroupMember:
    """A member of a group: its name at the backend, its host, and the logs that it currently holds.

    ``host`` and ``logs`` are None if the backend does not report them. In the shared modes every member holds all logs
    that it reads.
    """

    name: str
    host: str | None = None
    logs: tuple[Log, ...] | None = None

    def __str__(self) -> str:
        return f"{self.name} on {self.host}" if self.host else self.name


@attrs.frozen
class GroupDescription:
    """A group: the names of the topics where it has a position or members, sorted, and its members.

    ``members`` is None if the backend does not report them.
    """

    name: str
    topics: tuple[str, ...]
    members: tuple[GroupMember, ...] | None = None
