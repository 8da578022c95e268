"""What a pytest run shows of the contract: a line for each case as it ends, and the summary.

The lines replace pytest's dots, which a pipe's reader sees only when a line is full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from textwrap import shorten

import pytest

from mqplug_testing._case_tools.run_settings import PROFILES, Profile
from mqplug_testing._report.results import CaseOutcome, CaseResult, ContractRun, counts_text
from mqplug_testing.contract import CASES

MAX_SUMMARY_REASON_CHARS = 600  # failures are shown in full above
FAULT_GROUPS = ("FLT", "TO")
OUTCOMES_WITH_REASONS: tuple[CaseOutcome, ...] = ("skipped", "xfailed", "xpassed")


def print_summary(
    runs: Sequence[ContractRun], left_out: Mapping[str, Profile], terminal: pytest.TerminalReporter
) -> None:
    """Print for each run a table by group and the reasons, then the cases outside the profile, and a count."""
    for run in runs:
        terminal.write_sep("-", " ".join(filter(None, ("mqplug contract:", run.backend, run.name, run.profile))))
        for line in [*_table(run), *_reasons(run)]:
            terminal.write_line(line)
    for profile in PROFILES:
        if names := sorted(case for case, first in left_out.items() if first == profile):
            terminal.write_line(f"{len(names)} cases run only in the profile {profile}: {' '.join(names)}")
    variants = {row.id: row.left_out for run in runs for row in run.cases if row.left_out}
    for case, left in sorted(variants.items()):
        terminal.write_line(f"{case} leaves out in the profile quick: {', '.join(left)}")
    skipped = (row.id for run in runs for row in run.cases if row.outcome == "skipped")
    if untried := {case for case in (*left_out, *skipped) if case.partition("-")[0] in FAULT_GROUPS}:
        of = sum(case.group in FAULT_GROUPS for case in CASES)
        terminal.write_line(
            f"faults were not all tried: {len(untried)} of the {of} cases of {' and '.join(FAULT_GROUPS)} did not run; "
            "the profile full runs them, over a harness that can kill, freeze and cut"
        )
    total = sum((run.counts() for run in runs), Counter[CaseOutcome]())
    terminal.write_line(f"mqplug contract: {total.total()} cases, {counts_text(total)}")


def _table(run: ContractRun) -> list[str]:
    seen = run.seen
    lines = [f"{'group':<6}" + "".join(f"{outcome:>9}" for outcome in seen)]
    for group in run.groups:
        counts = run.counts(group)
        lines.append(f"{group:<6}" + "".join(f"{counts[outcome] or '':>9}" for outcome in seen).rstrip())
    return lines


def _reasons(run: ContractRun) -> list[str]:
    shared = [
        f"{outcome} {' '.join(ids)}: {reason}"
        for outcome in OUTCOMES_WITH_REASONS
        for reason, ids in sorted(run.reasons(outcome).items(), key=lambda found: found[1])
    ]
    failed = sorted((row for row in run.cases if row.outcome == "failed"), key=lambda row: row.id)
    return shared + [
        line
        for row in failed
        for line in (f"failed {row.headline}", f"    {shorten(row.reason, MAX_SUMMARY_REASON_CHARS)}")
    ]


class CaseLines:
    """A plugin of pytest that writes the lines, with the number of completed cases and of all."""

    def __init__(self, terminal: pytest.TerminalReporter, total: int) -> None:
        self._terminal = terminal
        self._total = total
        self._done = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the cases that pytest's own selection, such as ``-k``, has left."""
        self._total = len(session.items)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> Generator[None, tuple[str, object, object], tuple[str, object, object]]:
        """Leave out the dot of a case."""
        category, letter, word = yield
        return (category, "", "") if hasattr(report, "mqplug_noted") else (category, letter, word)

    def write(self, result: CaseResult) -> None:
        """Write the line of a case, at once."""
        self._done += 1
        promise = f": {result.title}" if result.outcome == "failed" else ""
        self._terminal.write_line(
            f"{self._done:>{len(str(self._total))}} of {self._total}  {result.id} {result.outcome} in "
            f"{result.seconds:.1f} s{promise}"
        )
        self._terminal.flush()
