"""Names of topics and groups."""

from __future__ import annotations

import re

from mqplug._errors import InvalidName

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_PARTITION = "-partition-"  # Pulsar keeps names with this for the partitions of topics, and refuses all others


def check_new_topic(name: str) -> str:
    """The name, if a topic may be created with it: legal on every backend."""
    check_topic(name)
    if not _LEGAL.fullmatch(name) or name in {".", ".."} or _PARTITION in name:
        raise InvalidName(
            f"{name[:80]!r} is not a name for a topic",
            topic=name,
            fix="Use 1 to 249 of A-Z a-z 0-9 . _ -, not '.' or '..', without '-partition-'",
        )
    return name


def check_topic(name: str) -> str:
    """The name, if a topic of any backend may have it."""
    if not isinstance(name, str):
        raise TypeError(f"a topic is a str, not {type(name).__name__}")
    if not name or "\0" in name:
        raise InvalidName(f"{name[:80]!r} is not a name for a topic", fix="Give a name without NUL")
    return name


def check_group(name: str) -> str:
    """The name, if a group may have it."""
    if not isinstance(name, str):
        raise TypeError(f"a group is a str, not {type(name).__name__}")
    if not name or len(name) > 249 or any(ord(character) < 32 or character == "/" for character in name):
        raise InvalidName(f"{name[:80]!r} is not a name for a group", fix="Use 1 to 249 printable characters, no '/'")
    return name
