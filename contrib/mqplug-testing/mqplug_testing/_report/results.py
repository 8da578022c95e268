"""The result of a contract run, as it is published."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, Literal

import attrs

REPORT_FORMAT: Final = 1

CaseOutcome = Literal["passed", "refused", "skipped", "xfailed", "xpassed", "failed"]

OUTCOMES: Final[tuple[CaseOutcome, ...]] = ("passed", "refused", "skipped", "xfailed", "xpassed", "failed")


@attrs.frozen(kw_only=True)
class CaseResult:
    """The result of one case. It is ``refused`` if calls of an undeclared operation raised ``Unsupported``, as they
    must.
    """

    id: str
    group: str
    title: str
    link: str
    since: str
    level: str
    outcome: CaseOutcome
    reason: str
    seconds: float

    @property
    def headline(self) -> str:
        """The first line of a failure."""
        return f"{self.id}: {self.title} ({self.link})"


@attrs.frozen(kw_only=True)
class ContractRun:
    """The results of the contract over one backend."""

    name: str
    profile: str
    backend: str = ""
    versions: dict[str, str] = attrs.field(factory=dict)
    capabilities: dict[str, Any] = attrs.field(factory=dict)
    cases: list[CaseResult] = attrs.field(factory=list)

    def counts(self, group: str | None = None) -> Counter[CaseOutcome]:
        """Return the number of cases by outcome, of one group or of all."""
        return Counter(row.outcome for row in self.cases if group in (None, row.group))

    @property
    def seen(self) -> list[CaseOutcome]:
        """The outcomes that occurred."""
        counts = self.counts()
        return [outcome for outcome in OUTCOMES if counts[outcome]]

    @property
    def groups(self) -> list[str]:
        """The sections of the contract that were run."""
        return sorted({row.group for row in self.cases})

    def reasons(self, outcome: CaseOutcome) -> dict[str, list[str]]:
        """Return the case ids of this outcome, by reason."""
        found: dict[str, list[str]] = {}
        for row in sorted(self.cases, key=lambda row: row.id):
            if row.outcome == outcome:
                found.setdefault(row.reason, []).append(row.id)
        return found


def counts_text(counts: Counter[CaseOutcome]) -> str:
    """Return counts as words, such as "3 passed, 1 skipped"."""
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
