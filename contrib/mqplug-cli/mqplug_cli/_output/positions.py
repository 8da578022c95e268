"""Positions as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mqplug


def position_text(position: mqplug.Position | None) -> str | None:
    """Return the coordinates of a position, separated by colons."""
    return None if position is None else ":".join(map(str, position.coordinates))
