"""Logs, which are incarnations of partitions, and the groups whose members hold them."""

from __future__ import annotations

from typing import Any, Self, cast
from weakref import WeakValueDictionary

import attrs


class Log:
    """The name of one incarnation of one partition of a topic. Interned: equal logs are the same object.

    ``incarnation`` distinguishes the log from those of deleted topics of the same name. It is empty if the backend has
    no incarnations.
    """

    __slots__ = ("__weakref__", "backend", "cluster", "incarnation", "partition", "text", "topic")

    backend: str
    cluster: str
    topic: str
    partition: int
    incarnation: str
    text: object | None  # a cache of the text form

    def __new__(cls, backend: str, cluster: str, topic: str, partition: int, incarnation: str = "") -> Self:
        name = (backend, cluster, topic, partition, incarnation)
        known = cast("Self | None", _logs.get(name))
        if known is None:
            known = object.__new__(cls)
            for field, value in zip(_FIELDS, name, strict=True):
                object.__setattr__(known, field, value)
            object.__setattr__(known, "text", None)
            known = cast("Self", _logs.setdefault(name, known))
        return known

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Log is immutable: cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Log, tuple(getattr(self, field) for field in _FIELDS)

    def __repr__(self) -> str:
        return f"Log({self.backend} {self.topic}[{self.partition}])"


_FIELDS = ("backend", "cluster", "topic", "partition", "incarnation")
_logs: WeakValueDictionary[tuple[str, str, str, int, str], Log] = WeakValueDictionary()


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
