"""Logs: a log is one incarnation of one partition."""

from __future__ import annotations

from typing import Any, Self, cast
from weakref import WeakValueDictionary


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
