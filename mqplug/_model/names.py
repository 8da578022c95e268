"""Names of topics and groups, patterns of topics, and numbers of partitions, with their checks."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import attrs

from mqplug._model.checks import whole_number
from mqplug._model.errors import InvalidName

TopicNames = list[str] | tuple[str, ...]
"""Several topics; a ``str`` is one topic."""

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_PARTITION = "-partition-"  # Pulsar reserves such names for partitions


def check_new_topic(name: str, most: int = 249) -> str:
    """Return the name if a topic may be created with it: legal on every backend, and not too long for this one."""
    check_topic(name)
    if not _LEGAL.fullmatch(name) or name in {".", ".."} or _PARTITION in name or len(name) > most:
        raise InvalidName(
            f"{name[:80]!r} is not a valid name for a topic",
            topic=name,
            fix=f"Use 1 to {min(249, most)} of A-Z a-z 0-9 . _ -, not '.' or '..', without '-partition-'",
        )
    return name


def check_topic(name: str) -> str:
    """Return the name if a topic of some backend may have it."""
    if not isinstance(name, str):
        raise TypeError(f"a topic must be a str, not {type(name).__name__}")
    if not name or "\0" in name:
        raise InvalidName(f"{name[:80]!r} is not a valid name for a topic", fix="Use a non-empty name without NUL")
    return name


def check_topics(names: object) -> list[str]:
    """Return one or several names as a list."""
    if isinstance(names, str):
        return [check_topic(names)]
    if isinstance(names, bytes) or not isinstance(names, Sequence):
        raise TypeError(f"topics must be a str, or a list of str, not {type(names).__name__}")
    return [check_topic(name) for name in names]


def check_partition(number: int) -> int:
    """Return the number if a partition may have it."""
    return whole_number("a partition", number)


def check_partition_list(numbers: object) -> None:
    """Raise ``TypeError`` or ``ValueError`` unless this is a list of one or more partitions, or None for all."""
    if numbers is None:
        return
    if isinstance(numbers, str | bytes) or not isinstance(numbers, Collection):
        raise TypeError(f"partitions must be a list of whole numbers, as in [0, 1], not {type(numbers).__name__}")
    if not numbers:
        raise ValueError("partitions must name at least one; omit it to read all")
    for each in numbers:
        check_partition(each)


def check_group(name: str) -> str:
    """Return the name if a group may have it."""
    if not isinstance(name, str):
        raise TypeError(f"a group must be a str, not {type(name).__name__}")
    if not name or len(name) > 249 or any(ord(character) < 32 or character == "/" for character in name):
        raise InvalidName(
            f"{name[:80]!r} is not a valid name for a group", fix="Use 1 to 249 printable characters, no '/'"
        )
    return name


@attrs.frozen
class Matching:
    """All topics, current and future, whose full name matches a regular expression. Made by ``matching``."""

    pattern: str
    _compiled: re.Pattern[str] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_compiled", re.compile(self.pattern))

    def matches(self, topic: str) -> bool:
        """Return whether a topic's full name matches."""
        return self._compiled.fullmatch(topic) is not None

    def __str__(self) -> str:
        return f"matching({self.pattern!r})"


def matching(pattern: str) -> Matching:
    """Choose all topics whose full name matches a regular expression, as in ``matching("orders[.].*")``.

    A consumer reads the existing topics, and later ones from their first message.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"a pattern must be a str, not {type(pattern).__name__}")
    try:
        return Matching(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
