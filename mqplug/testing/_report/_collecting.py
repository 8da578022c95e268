"""Collects what became of each case, in this process and in those of other workers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from mqplug.testing._registry import Case
from mqplug.testing._report._results import Outcome, Row, Run
from mqplug.testing._report._terminal import show
from mqplug.testing._report._writing import write


class ContractReport:
    """A plugin of pytest: it shows a summary by group, and writes the files that were asked for."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [Path(path) for path in paths]
        self._runs: dict[tuple[str, str], Run] = {}
        self._rows: dict[str, tuple[Run, Row]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the outcome of a case in its report, which comes here also from other processes."""
        report = yield
        marker = item.get_closest_marker("mqplug_case")
        if marker is not None and (report.when == "call" or report.outcome != "passed"):
            case: Case = marker.args[0]
            report.user_properties.append(("mqplug_case", _described(case)))
            report.user_properties.append(("mqplug_name", _name_of(item, case)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what was noted."""
        noted = dict(report.user_properties)
        case, run = noted.get("mqplug_case"), noted.get("mqplug_run", {})
        if isinstance(case, dict) and isinstance(run, dict):
            outcome, reason = _outcome(report, run.get("outcome", "passed"))
            row = Row(**case, outcome=outcome, reason=reason, seconds=round(report.duration, 3))
            self._rows[report.nodeid] = self._run(str(noted["mqplug_name"]), run), row

    def _run(self, name: str, noted: dict[str, Any]) -> Run:
        key = name, noted.get("backend", "")
        told = {each: noted[each] for each in ("profile", "backend", "versions", "capabilities") if each in noted}
        return self._runs.setdefault(key, Run(name=name, **{"profile": "", **told}))

    @property
    def runs(self) -> list[Run]:
        """The runs, each with its cases."""
        found = [
            attrs.evolve(run, cases=[row for owner, row in self._rows.values() if owner is run])
            for run in self._runs.values()
        ]
        return [run for run in found if run.cases]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say by group what passed and what was skipped, and why; write the files."""
        if runs := self.runs:
            show(runs, terminalreporter)
            for path in self._paths:
                write(runs, path)


def _described(case: Case) -> dict[str, Any]:
    return {"id": case.id, "group": case.group, "title": case.title, "since": case.since, "level": case.level}


def _name_of(item: pytest.Item, case: Case) -> str:
    """What tells this backend from others of the same test: the parameters beside the case."""
    callspec = getattr(item, "callspec", None)
    return "" if callspec is None else str(callspec.id).replace(case.id, "").strip("-")


def _outcome(report: pytest.TestReport, passed: Outcome) -> tuple[Outcome, str]:
    if hasattr(report, "wasxfail"):
        if report.skipped:
            return "xfailed", str(report.wasxfail)
        return ("xpassed", str(report.wasxfail)) if report.passed else ("failed", str(report.wasxfail))
    if report.skipped and isinstance(report.longrepr, tuple):
        return "skipped", report.longrepr[2].removeprefix("Skipped: ")
    if report.failed:
        return "failed", report.longreprtext.strip().rpartition("\n")[2]
    return passed, ""
