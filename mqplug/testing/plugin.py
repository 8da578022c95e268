"""The pytest plugin: the fixture ``mq``, a marker, and a report of the contract.

It imports nothing of mqplug until it is used, so that coverage can begin before mqplug is imported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from mqplug.memory import MemoryClient
    from mqplug.testing._registry import Case

TIMED = ("_deadline", "_position", "_consume.returned")  # modules of the core by whose time a caller waits


@pytest.fixture
def mq(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryClient]:
    """A client of a fresh memory store, in which waiting takes no time: ``mq.clock`` goes on instead.

    A wait is skipped when there is no other thread that could send meanwhile. ``mq.clock.advance(seconds)`` lets time
    pass. An indirect parameter, ``"kafka"`` or ``"pulsar"``, says what the store is like.
    """
    from mqplug.memory import MemoryClient

    with MemoryClient.fresh(like=getattr(request, "param", "full")) as client:
        for module in TIMED:
            monkeypatch.setattr(f"mqplug.{module}.time", client.clock)
        client.clock.skips = True
        yield client


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--mqplug-report``."""
    group = parser.getgroup("mqplug")
    group.addoption("--mqplug-report", metavar="FILE", help="write the result of each contract case to this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of the cases, and begin the report."""
    config.addinivalue_line("markers", "mqplug_case(case): a case of mqplug's contract")
    config.pluginmanager.register(ContractReport(config.getoption("--mqplug-report")), "mqplug-report")


class ContractReport:
    """Collects what became of each case; skips are counted at the end, and all can be written to a file."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._rows: dict[str, dict[str, str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the outcome of a case in its report, which comes here also from other processes."""
        report = yield
        marker = item.get_closest_marker("mqplug_case")
        if marker is not None and (report.when == "call" or report.outcome != "passed"):
            report.user_properties.append(("mqplug_case", _row(marker.args[0], report)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what was noted."""
        for name, row in report.user_properties:
            if name == "mqplug_case" and isinstance(row, dict):
                self._rows[report.nodeid] = row

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many cases passed, and how many were skipped; write the file."""
        if not self._rows:
            return
        outcomes = [row["outcome"] for row in self._rows.values()]
        counted = ", ".join(f"{outcomes.count(each)} {each}" for each in sorted(set(outcomes)))
        terminalreporter.write_line(f"mqplug contract: {len(outcomes)} cases, {counted}")
        if self._path is not None:
            self._path.write_text(json.dumps(list(self._rows.values()), indent=1) + "\n")


def _row(case: Case, report: pytest.TestReport) -> dict[str, str]:
    outcome, reason = str(report.outcome), ""
    if hasattr(report, "wasxfail"):
        outcome, reason = "xfailed" if report.skipped else "failed", report.wasxfail
    elif report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        reason = report.longreprtext.strip().rpartition("\n")[2]
    return {"id": case.id, "title": case.title, "since": case.since, "outcome": outcome, "reason": reason}
