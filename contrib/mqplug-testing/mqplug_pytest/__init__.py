"""The pytest plugin: the ``mq`` fixture, and the contract's options, marker and report.

Each pytest run loads it wherever mqplug is installed. So it is a package of its own, and imports nothing of mqplug
until it is used. That also lets coverage start before mqplug is imported.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqplug.memory import MemoryClient
    from mqplug_testing._report.collecting import ContractReport

# The modules of the core whose clock the fixture replaces by the store's.
MODULES_WITH_A_CLOCK: Final = ("_base.deadline", "_model.position", "_consume.retries")

SHARED_DIRECTORY_VARIABLE: Final = "MQPLUG_KIT_SHARED"  # read by mqplug_testing._running

REPORT_NAME: Final = "mqplug-report"


@pytest.fixture
def mq(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryClient]:
    """Return a client of a fresh memory store in which waiting takes no time: ``mq.clock`` advances instead.

    A wait is skipped if no other thread could send during it. ``mq.clock.advance(seconds)`` lets time pass. An
    indirect parameter, ``"kafka"`` or ``"pulsar"``, selects the backend that the store imitates.
    """
    from mqplug.memory import MemoryClient

    with MemoryClient.fresh(like=getattr(request, "param", "full")) as client:
        for module in MODULES_WITH_A_CLOCK:
            monkeypatch.setattr(f"mqplug.{module}.time", client.clock)
        client.clock.skips = True
        yield client


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the contract."""
    group = parser.getgroup("mqplug", "mqplug's contract")
    add = group.addoption
    add("--mqplug-url", metavar="URL", help="the backend that mqplug_testing.contract runs over")
    add("--mqplug-profile", choices=("quick", "full", "soak"), help="how much of the contract to run")
    add(
        "--mqplug-only",
        metavar="ID",
        action="append",
        default=[],
        help="run only these cases or groups of cases: SEEK-05,WM",
    )
    add("--mqplug-scale", type=float, metavar="FACTOR", help="multiply all waiting of the contract by this factor")
    add("--mqplug-seed", type=int, metavar="N", help="shuffle the cases with this seed")
    add("--mqplug-kit", metavar="VERSION", help="report failures of cases newer than this, without failing the run")
    add("--mqplug-lines", action="store_true", help="write a line for each case as it ends, instead of dots")
    add("--mqplug-known-failures", metavar="FILE", help='TOML with the reasons of known failures: SEEK-22 = "why"')
    add(
        "--mqplug-report", metavar="FILE", action="append", default=[],
        help="write the results to this file: as Markdown if its name ends with .md, else as JSON",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of the cases."""
    config.addinivalue_line("markers", "mqplug_case(case): a case of mqplug's contract")
    if hasattr(config, "workerinput") and config.option.basetemp:  # a worker of pytest-xdist
        os.environ[SHARED_DIRECTORY_VARIABLE] = str(Path(config.option.basetemp).parent)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select and prepare the cases of the contract, and report on them. A run without cases does not load the kit."""
    if any(item.get_closest_marker("mqplug_case") for item in items):
        from mqplug_testing._collection import select_cases

        _register_report(config, len(items))
        select_cases(items, config)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Watch for cases in the reports of the workers: this process collects none."""
    config.pluginmanager.register(_WatchingWorkers(config))


class _WatchingWorkers:
    """Registers the report with the first case that a worker reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._total = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note the number of tests: each worker has collected all of them."""
        self._total = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "mqplug_noted") and not self._config.pluginmanager.has_plugin(REPORT_NAME):
            registered = _register_report(self._config, self._total)
            registered.pytest_runtest_logreport(report)  # pytest calls it only for later reports


def _register_report(config: pytest.Config, tests: int) -> ContractReport:
    from mqplug_testing._report.collecting import ContractReport
    from mqplug_testing._report.terminal import CaseLines

    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")  # None in a worker
    lines = CaseLines(terminal, tests) if config.getoption("--mqplug-lines") and terminal is not None else None
    if lines is not None:
        config.pluginmanager.register(lines)
    report = ContractReport(config.getoption("--mqplug-report") or [], lines)
    config.pluginmanager.register(report, REPORT_NAME)
    return report
