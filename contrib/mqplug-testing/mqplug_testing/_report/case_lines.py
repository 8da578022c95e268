"""A line for each case as it ends, in place of pytest's dots, which a pipe's reader sees only when a line is full."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from mqplug_testing._report.results import CaseResult


class CaseLines:
    """A plugin of pytest that writes the lines, with the number of cases so far and of all."""

    def __init__(self, terminal: pytest.TerminalReporter, total: int) -> None:
        self._terminal = terminal
        self._total = total
        self._done = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the cases that pytest itself has left, as after ``-k``."""
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
