"""Backends with all capabilities of memory except one."""

from __future__ import annotations

import attrs
from mutants.base import Mutant

from mqplug import memory

SHARING = ("shared", "key_shared")
WITHOUT_GROUPS = ("durable_groups", "ordered", "exclusive", *SHARING, "nack", "ack_timeout", "assignment_events")
GO_WITH = {"groups": WITHOUT_GROUPS, "nack": SHARING, "partitions": ("add_partitions",), "retention": ("alter_topic",)}
"""The capabilities that depend on each of these."""


class Lacking(Mutant):
    """Memory that does not declare one capability, nor those that are meaningless without it."""

    without: str

    def capabilities(self, sound):
        return attrs.evolve(sound, **dict.fromkeys([self.without, *GO_WITH.get(self.without, ())], False))


def _lacking(capability):
    return type(f"Lacking-{capability}", (Lacking,), {"without": capability})


FULL = memory.mqplug_describe().capabilities
LACKING = [_lacking(name) for name, able in attrs.asdict(FULL).items() if able is True]


def concerned(kind, reached, cases):
    """Return the cases that name the lacking capability, or that execute one of the few functions that look it up."""
    asked = {case for case, needs in cases.items() if kind.without in needs}
    return asked | reached.looking_up(kind.without)
