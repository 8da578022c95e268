"""The pytest plugin that collects the results of the cases, also from the processes of other workers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from mqplug_testing._case_tools.registry import Case
from mqplug_testing._case_tools.run_settings import Profile
from mqplug_testing._collection import OUT_OF_PROFILE
from mqplug_testing._report.failures import shorten_report
from mqplug_testing._report.results import CaseOutcome, CaseResult, ContractRun, write_report
from mqplug_testing._report.terminal import CaseLines, print_summary
from mqplug_testing._running import NOTED


class ContractReport:
    """A plugin of pytest that shows a summary by group, and writes the requested files. ``lines`` get each result."""

    def __init__(self, paths: Sequence[str], lines: CaseLines | None = None) -> None:
        self._paths = [Path(path) for path in paths]
        self._lines = lines
        self._runs: dict[tuple[str, str], ContractRun] = {}
        self._rows: dict[str, tuple[ContractRun, CaseResult]] = {}
        self._left_out: dict[str, Profile] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the outcome of a case to its report, which also travels from a worker to the main process."""
        report = yield
        marker = item.get_closest_marker("mqplug_case")
        if marker is not None and (report.when == "call" or report.outcome != "passed"):
            case: Case = marker.args[0]
            noted = {"case": _described(case), "name": _name_of(item, case), "run": item.stash.get(NOTED, {})}
            if report.failed:
                noted["why"] = _shortened(item, case, call, report)
            report.mqplug_noted = noted  # type: ignore[attr-defined]
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Collect the cases outside the profile; a worker sends them to the main process."""
        left_out: dict[str, Profile] = session.config.stash.get(OUT_OF_PROFILE, {})
        self._left_out |= left_out
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["mqplug_left_out"] = self._left_out

    @pytest.hookimpl(optionalhook=True)  # of pytest-xdist
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect the cases outside the profile from a worker."""
        self._left_out |= getattr(node, "workeroutput", {}).get("mqplug_left_out", {})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the outcome of a case."""
        if noted := getattr(report, "mqplug_noted", None):
            run = noted["run"]
            outcome, reason = _outcome(report, run.get("outcome", "passed"), noted.get("why", ""))
            left_out = run.get("left_out", [])
            row = CaseResult(
                **noted["case"], outcome=outcome, reason=reason, seconds=round(report.duration, 3), left_out=left_out
            )
            self._rows[report.nodeid] = self._run(noted["name"], run), row
            if self._lines is not None:
                self._lines.write(row)

    def _run(self, name: str, noted: dict[str, Any]) -> ContractRun:
        key = name, noted.get("backend", "")
        facts = {each: noted[each] for each in ("profile", "backend", "versions", "capabilities") if each in noted}
        return self._runs.setdefault(key, ContractRun(name=name, **{"profile": "", **facts}))

    @property
    def runs(self) -> list[ContractRun]:
        """The runs, each with its cases."""
        found = [
            attrs.evolve(run, cases=[row for owner, row in self._rows.values() if owner is run])
            for run in self._runs.values()
        ]
        return [run for run in found if run.cases]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the outcomes by group, and the reasons of skips and failures; write the files."""
        if runs := self.runs:
            print_summary(runs, self._left_out, terminalreporter)
            for path in self._paths:
                write_report(runs, path)


def _described(case: Case) -> dict[str, Any]:
    return {name: getattr(case, name) for name in ("id", "group", "title", "link", "since", "level")}


def _name_of(item: pytest.Item, case: Case) -> str:
    """Return the name of the backend within its test: the parameters other than the case."""
    callspec = getattr(item, "callspec", None)
    return "" if callspec is None else str(callspec.id).replace(case.id, "").strip("-")


def _shortened(item: pytest.Item, case: Case, call: pytest.CallInfo[None], report: pytest.TestReport) -> str:
    """Replace the report's text by that of the case, unless pytest options ask for the whole; return one line."""
    option = item.config.option
    error = None if call.excinfo is None else call.excinfo.value
    return shorten_report(report, case, error, whole=option.fulltrace or option.tbstyle in ("long", "native"))


def _outcome(report: pytest.TestReport, passed: CaseOutcome, why: str) -> tuple[CaseOutcome, str]:
    if hasattr(report, "wasxfail"):
        if report.skipped:
            return "xfailed", str(report.wasxfail)
        return ("xpassed", str(report.wasxfail)) if report.passed else ("failed", why)
    if report.skipped and isinstance(report.longrepr, tuple):
        return "skipped", report.longrepr[2].removeprefix("Skipped: ")
    if report.failed:
        return "failed", why
    return passed, ""
