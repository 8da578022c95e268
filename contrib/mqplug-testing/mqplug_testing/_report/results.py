"""The result of a contract run, and its files: JSON for programs, Markdown for a README."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import attrs

REPORT_FORMAT: Final = 1

CaseOutcome = Literal["passed", "refused", "skipped", "xfailed", "xpassed", "failed"]

OUTCOMES: Final[tuple[CaseOutcome, ...]] = ("passed", "refused", "skipped", "xfailed", "xpassed", "failed")


@attrs.frozen(kw_only=True)
class CaseResult:
    """The result of one case. It is ``refused`` if calls of an undeclared operation raised ``Unsupported``, as they
    must. ``left_out`` names the variants of the case that the profile does not include.
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
    left_out: list[str] = attrs.field(factory=list)

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


def write_report(runs: Sequence[ContractRun], path: Path) -> None:
    """Write Markdown if the file's name ends with .md, else JSON as in ``docs/contract-report.schema.json``."""
    path.write_text(markdown(runs) if path.suffix == ".md" else json.dumps(as_json(runs), indent=1) + "\n")


def as_json(runs: Sequence[ContractRun]) -> dict[str, object]:
    """Return the runs as JSON data, with their counts."""
    return {
        "format": REPORT_FORMAT,
        "runs": [{**attrs.asdict(run), "counts": {each: run.counts()[each] for each in OUTCOMES}} for run in runs],
    }


def markdown(runs: Sequence[ContractRun]) -> str:
    """Return a Markdown table for each run."""
    return "\n".join(_section(run) for run in runs)


def _section(run: ContractRun) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    declared = ", ".join(f"`{name}`" for name, value in run.capabilities.items() if value is True)
    seen = run.seen
    title = " ".join(filter(None, (run.backend, run.name)))
    lines = [
        f"**The contract of mqplug over {title}** (profile {run.profile}; {versions})",
        "",
        "| group | " + " | ".join(seen) + " |",
        "|---|" + "---:|" * len(seen),
        *(_line(group, run, group) for group in run.groups),
        _line("**all**", run, None),
        "",
        f"Declared: {declared}.",
    ]
    for outcome in ("xfailed", "failed"):
        lines += [f"* {outcome}: {', '.join(ids)}: {reason}" for reason, ids in run.reasons(outcome).items()]
    return "\n".join(lines) + "\n"


def _line(name: str, run: ContractRun, group: str | None) -> str:
    counts = run.counts(group)
    cells = [str(counts[outcome] or "") for outcome in run.seen]
    return f"| {name} | " + " | ".join(cells) + " |"
