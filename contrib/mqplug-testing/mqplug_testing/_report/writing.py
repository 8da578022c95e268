"""The result as a file: JSON for programs, Markdown for a README."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import attrs

from mqplug_testing._report.results import OUTCOMES, REPORT_FORMAT, ContractRun


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
