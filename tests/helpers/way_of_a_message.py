"""The way of a message through the modules: as it is, and as the diagrams of docs/architecture.md show it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs/architecture.md").read_text()


def modules_called(call: Callable[[], Any]) -> set[str]:
    """Return the modules of mqplug and its plugins whose functions a call enters on its own thread."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {name for name in seen if re.match(r"mqplug(_[a-z]+)?\.", name)}


def modules_pictured(heading: str) -> set[str]:
    """Return the modules in the diagram under this heading; ``a.b, .c`` means ``a.b`` and ``a.c``."""
    picture = PAGE.partition(f"## {heading}\n")[2].partition("```text\n")[2].partition("```")[0]
    named = set()
    for chain in re.findall(r"mqplug[\w.]*(?:, \.?[\w.]+)*", picture):
        first, *others = chain.split(", ")
        named |= {first, *(f"{first.rpartition('.')[0]}{other}" if other[0] == "." else other for other in others)}
    return named - {"mqplug.spi"}
