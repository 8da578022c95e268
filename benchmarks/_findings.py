"""What is measured once and has no rival: a number, and what it may be at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs


@attrs.frozen
class Finding:
    """A number with its unit; ``most`` is the limit that it has to keep, where there is one."""

    name: str
    value: float
    unit: str
    most: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the limit is kept."""
        if self.most is None:
            return ""
        return f"at most {self.most:,.0f}: {'kept' if self.value <= self.most else 'NOT kept'}"


def show_finding(found: Finding) -> None:
    """Print one."""
    print(f"  {found.name:<60} {found.value:12,.2f} {found.unit:<4} {found.verdict}", flush=True)


def findings_as_data(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """All of them, with their verdicts."""
    return [{**attrs.asdict(found), "verdict": found.verdict} for found in findings]
