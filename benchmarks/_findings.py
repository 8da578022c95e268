"""Findings: numbers measured once, without a rival, some with a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs


@attrs.frozen
class BenchmarkFinding:
    """A number with its unit. ``most`` is its upper limit, or None."""

    name: str
    value: float
    unit: str
    most: float | None = None

    @property
    def verdict(self) -> str:
        """The limit, and whether the value keeps it; empty without a limit."""
        if self.most is None:
            return ""
        return f"at most {self.most:,g}: {'kept' if self.value <= self.most else 'NOT kept'}"


def print_finding(found: BenchmarkFinding) -> None:
    """Print one finding in one line."""
    print(f"  {found.name:<60} {found.value:12,.2f} {found.unit:<4} {found.verdict}", flush=True)


def findings_as_data(findings: Sequence[BenchmarkFinding]) -> list[dict[str, Any]]:
    """Return all findings with their verdicts, for JSON."""
    return [{**attrs.asdict(found), "verdict": found.verdict} for found in findings]
