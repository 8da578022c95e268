"""The tables of docs/rights.md: the rights that each call needs."""

from __future__ import annotations

import re
from pathlib import Path

import mqplug

PAGE = Path(__file__).parents[2] / "docs/rights.md"


def rights_on(backend: str) -> dict[str, dict[str, list[str]]]:
    """Return for each call on the page the rights that it needs on each kind of resource in the table."""
    section = re.search(rf"^## {backend}$(.+?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section, f"docs/rights.md has no section {backend}"
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")]
                      for line in section[1].splitlines() if line.startswith("|")]  # fmt: skip
    kinds = [name.removeprefix("on the ") for name in head[1:] if name.startswith("on the ")]
    return {
        call: {kind: re.findall(r"[\w-]+", cell) for kind, cell in zip(kinds, cells, strict=False) if cell}
        for calls, *cells in rows
        for call in re.findall(r"`([^`]+)`", calls)
    }


def client_calls() -> set[str]:
    """Return the calls of a client that contact the server."""
    local = {"backend", "capabilities", "support", "unwrap", "advance", "distance", "close"}
    return {name for name in vars(mqplug.Client) if not name.startswith("_")} - local
