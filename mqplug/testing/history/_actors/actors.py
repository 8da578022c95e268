"""Who acts in a run: as many of each sort as the plan says, and as the backend can bear."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug import Capabilities
from mqplug.spi import Mode
from mqplug.testing.history._actors.administrator import AdministratorActor
from mqplug.testing.history._actors.members import GroupPlan, MemberActor
from mqplug.testing.history._actors.producers import ProducerActor
from mqplug.testing.history._actors.readers import ReaderActor
from mqplug.testing.history._actors.run_context import Actor, RunContext


def planned_groups(able: Capabilities) -> list[GroupPlan]:
    """One that begins at EARLIEST, one at LATEST, and one of each other mode, as far as there are such.

    Where nobody tells a member that a partition is another's, only a member that is alone seeks: the others would go on
    from where they were, and store that.
    """
    if not able.durable_groups:
        return []
    told = able.assignment_events
    found = [GroupPlan("early", seeks=told), GroupPlan("late", latest=True, alone=not told)] if able.ordered else []
    others: list[Mode] = ["exclusive", "shared", "key_shared"]
    return found + [
        GroupPlan(mode, mode=mode, seeks=False, alone=mode == "exclusive") for mode in others if getattr(able, mode)
    ]


def all_actors(stage: RunContext, groups: Sequence[GroupPlan], able: Capabilities, life: int = 0) -> list[Actor]:
    """All who act. Those of a later *life*, when the former were killed, have other names."""
    plan, again = stage.plan, f".{life}" if life else ""
    actors: list[Actor] = [ProducerActor(stage, f"producer-{number}{again}") for number in range(plan.producers)]
    for group in groups:
        count = 1 if group.alone else plan.members
        actors += [MemberActor(stage, f"{group.name}/{n}{again}", group, can_nack=able.nack) for n in range(count)]
    actors += [ReaderActor(stage, f"reader-{number}{again}", by_time=able.seek_time) for number in range(plan.readers)]
    asked = [group.name for group in groups if not group.shared]
    return [*actors, AdministratorActor(stage, asked, name=f"administrator{again}", grows=not life)]
