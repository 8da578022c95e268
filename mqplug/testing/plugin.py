"""The pytest plugin: the fixture ``mq``, and the options, the marker and the report of the contract.

It imports nothing of mqplug until it is used, so that coverage can begin before mqplug is imported.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqplug.memory import MemoryClient

TIMED = ("_base.deadline", "_model.position", "_consume.nacked")  # modules of the core by whose time a caller waits


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
    """Add the options of the contract."""
    group = parser.getgroup("mqplug", "mqplug's contract")
    add = group.addoption
    add("--mqplug-url", metavar="URL", help="the backend that mqplug.testing.contract is run over")
    add("--mqplug-profile", choices=("quick", "full", "soak"), help="how much of the contract is run")
    add(
        "--mqplug-only",
        metavar="ID",
        action="append",
        default=[],
        help="run these cases, or groups of cases: SEEK-05,WM",
    )
    add("--mqplug-scale", type=float, metavar="FACTOR", help="stretch all waiting of the contract")
    add("--mqplug-seed", type=int, metavar="N", help="run the cases in an order that this number decides")
    add("--mqplug-kit", metavar="VERSION", help="cases that are newer than this are reported, and do not fail")
    add("--mqplug-known-failures", metavar="FILE", help='TOML lines that say why a case fails: SEEK-22 = "why"')
    add(
        "--mqplug-report", metavar="FILE", action="append", default=[],
        help="write the result of each case to this file: JSON, or Markdown where its name ends with .md",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of the cases."""
    config.addinivalue_line("markers", "mqplug_case(case): a case of mqplug's contract")
    if hasattr(config, "workerinput") and config.option.basetemp:  # a worker of pytest-xdist: they lie side by side
        from mqplug.testing._running.running_alone import SHARED_DIRECTORY_VARIABLE

        os.environ[SHARED_DIRECTORY_VARIABLE] = str(Path(config.option.basetemp).parent)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Prepare what is part of the contract, and report about it; other runs do not load the kit."""
    if any(item.get_closest_marker("mqplug_case") for item in items):
        from mqplug.testing._collection.selection import select_cases

        select_cases(items, config)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin the report. It is there before cases are: with workers, this process collects none."""
    from mqplug.testing._report import ContractReport

    paths: list[str] = session.config.getoption("--mqplug-report") or []
    session.config.pluginmanager.register(ContractReport(paths), "mqplug-report")
