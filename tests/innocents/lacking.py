"""Backends that can do all that memory can, but for one thing."""

from __future__ import annotations

import attrs
from mutants.base import Mutant

from mqplug.memory._personality import FULL

SHARING = ("shared", "key_shared")
WITHOUT_GROUPS = ("durable_groups", "ordered", "exclusive", *SHARING, "nack", "ack_timeout", "assignment_events")
GO_WITH = {"groups": WITHOUT_GROUPS, "nack": SHARING, "partitions": ("add_partitions",), "retention": ("alter_topic",)}
"""What cannot be without something else."""


class Lacking(Mutant):
    """Memory that does not declare one capability, nor what makes no sense without it."""

    without: str

    def capabilities(self, sound):
        return attrs.evolve(sound, **dict.fromkeys([self.without, *GO_WITH.get(self.without, ())], False))


def _lacking(capability):
    return type(f"Lacking-{capability}", (Lacking,), {"without": capability})


LACKING = [_lacking(name) for name, able in attrs.asdict(FULL.capabilities).items() if able is True]


def concerned(kind, reached, cases):
    """The cases that name what is lacking, or execute a function that does and that only some execute."""
    asked = {case for case, needs in cases.items() if kind.without in needs}
    return asked | reached.looking_up(kind.without)
