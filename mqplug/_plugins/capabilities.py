"""Public capabilities: the backend's, and those that the core adds in the same way on all backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal

import attrs

from mqplug.spi._descriptor import Capabilities

Support = Literal["native", "core", "absent"]

FLAGS: Final = frozenset(field.name for field in attrs.fields(Capabilities) if isinstance(field.default, bool))


def _always(native: Capabilities) -> bool:
    return True


def _with_members(native: Capabilities) -> bool:
    """Return whether a group can be joined, in any mode."""
    return native.groups and (native.ordered or native.exclusive or native.shared or native.key_shared)


def _with_ranges(native: Capabilities) -> bool:
    """Return whether a group's stored position can have acked ranges after it."""
    return _with_members(native) and native.acked_ranges_max > 0


PROVIDED: Final[Mapping[str, Callable[[Capabilities], bool]]] = {
    "auto_create_topics": _always,  # create=True looks the topic up first, and creates it if it is missing
    "pause_resume": _always,  # every driver can skip a log
    "nack": _with_members,
    "dead_letter": _with_members,
    "ack_timeout": _with_members,
    "auto_commit": _with_members,
    "commit": _with_members,
    "cumulative_ack": _with_members,
    "individual_ack": _with_ranges,
}
"""The capabilities that the core provides, and the condition of each."""


@cache
def public(native: Capabilities) -> Capabilities:
    """Return the capabilities that users see: native ones, and the ones that the core provides."""
    provided: dict[str, Any] = {name: True for name, possible in PROVIDED.items() if possible(native)}
    return attrs.evolve(native, **provided)


def support(native: Capabilities, name: str) -> Support:
    """Return the provider of a capability: the backend itself, the core, or neither."""
    if name not in FLAGS:
        raise ValueError(f"{name!r} is not an operation or property; expected one of {', '.join(sorted(FLAGS))}")
    if getattr(native, name):
        return "native"
    return "core" if getattr(public(native), name) else "absent"
