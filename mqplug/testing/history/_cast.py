"""Who acts in a run: as many of each sort as the plan says, and as the backend can bear."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug import Capabilities
from mqplug.spi import Mode
from mqplug.testing.history._administrator import Administrator
from mqplug.testing.history._members import Group, Member
from mqplug.testing.history._producing import Sender
from mqplug.testing.history._readers import Reader
from mqplug.testing.history._stage import Actor, Stage


def groups_of(able: Capabilities) -> list[Group]:
    """One that begins at EARLIEST, one at LATEST, and one of each other mode, as far as there are such.

    Where nobody tells a member that a partition is another's, only a member that is alone seeks: the others would go on
    from where they were, and store that.
    """
    if not able.durable_groups:
        return []
    told = able.assignment_events
    found = [Group("early", seeks=told), Group("late", latest=True, alone=not told)] if able.ordered else []
    others: list[Mode] = ["exclusive", "shared", "key_shared"]
    return found + [
        Group(mode, mode=mode, seeks=False, alone=mode == "exclusive") for mode in others if getattr(able, mode)
    ]


def cast(stage: Stage, groups: Sequence[Group], able: Capabilities, life: int = 0) -> list[Actor]:
    """All who act. Those of a later *life*, when the former were killed, have other names."""
    plan, again = stage.plan, f".{life}" if life else ""
    actors: list[Actor] = [Sender(stage, f"producer-{number}{again}") for number in range(plan.producers)]
    for group in groups:
        count = 1 if group.alone else plan.members
        actors += [Member(stage, f"{group.name}/{n}{again}", group, can_nack=able.nack) for n in range(count)]
    actors += [Reader(stage, f"reader-{number}{again}", by_time=able.seek_time) for number in range(plan.readers)]
    asked = [group.name for group in groups if not group.shared]
    return [*actors, Administrator(stage, asked, name=f"administrator{again}", grows=not life)]
