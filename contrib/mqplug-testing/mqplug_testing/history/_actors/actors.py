"""The actors of a run: as many of each kind as the plan asks for and the backend supports."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug import Capabilities
from mqplug.spi import Mode
from mqplug_testing.history._actors.administrator import AdministratorActor
from mqplug_testing.history._actors.members import GroupPlan, MemberActor
from mqplug_testing.history._actors.producers import ProducerActor
from mqplug_testing.history._actors.readers import ReaderActor
from mqplug_testing.history._actors.run_context import Actor, RunContext


def planned_groups(able: Capabilities) -> list[GroupPlan]:
    """Return a group that starts at EARLIEST, one at LATEST, and one of each other supported mode.

    Where members are not notified that a partition moved to another member, only a lone member seeks: the others would
    continue from their old position, and store it.
    """
    if not able.durable_groups:
        return []
    notified = able.assignment_events
    found = (
        [GroupPlan("early", seeks=notified), GroupPlan("late", latest=True, alone=not notified)] if able.ordered else []
    )
    others: list[Mode] = ["exclusive", "shared", "key_shared"]
    return found + [
        GroupPlan(mode, mode=mode, seeks=False, alone=mode == "exclusive") for mode in others if getattr(able, mode)
    ]


def all_actors(context: RunContext, groups: Sequence[GroupPlan], able: Capabilities, life: int = 0) -> list[Actor]:
    """Return all actors. Those of a later *life*, which replace killed ones, have other names."""
    plan, again = context.plan, f".{life}" if life else ""
    actors: list[Actor] = [ProducerActor(context, f"producer-{number}{again}") for number in range(plan.producers)]
    for group in groups:
        count = 1 if group.alone else plan.members
        actors += [MemberActor(context, f"{group.name}/{n}{again}", group, can_nack=able.nack) for n in range(count)]
    actors += [
        ReaderActor(context, f"reader-{number}{again}", by_time=able.seek_time) for number in range(plan.readers)
    ]
    asked = [group.name for group in groups if not group.shared]
    return [*actors, AdministratorActor(context, asked, name=f"administrator{again}", grows=not life)]
