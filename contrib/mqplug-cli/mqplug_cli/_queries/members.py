"""Refuses to change a group that is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mqplug


def refuse_members(group: mqplug.GroupDescription) -> None:
    """Raise ``ConsumerBusy`` with the names of the members if there are any, before a question is asked in vain."""
    import mqplug

    if group.members:
        names = ", ".join(map(str, group.members))
        raise mqplug.ConsumerBusy(
            f"the group {group.name!r} has members: {names}", fix="Close the consumers of the group first"
        )
