"""A pytest plugin: marks that follow from a test's fixtures, and the cost of the tests of a run.

The marks are explained in CONTRIBUTING.md. A test gets the mark of each server that it uses (``kafka``, ``pulsar``,
``spark``); a case of the contract that its module does not name in ``BY_DAY`` gets ``night``. Tests that share a
server which only one worker uses run in that worker, as a group of pytest-xdist.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

SERVERS = ("kafka", "pulsar", "spark")
GROUPS = {
    "spark": "spark",
    "disturbed_kafka": "kafka-disturbed",
    "kafka_cluster": "kafka-cluster",
    "secured_kafka": "kafka-secured",
    "disturbed_pulsar": "pulsar-disturbed",
    "secured_pulsar": "pulsar-secured",
}
"""The fixtures that start a server which one worker uses. A test with several is in the group of the first."""
DEAREST = 10
COST = "seconds of processor, and on the clock"
BEGUN = pytest.StashKey[tuple[float, float]]()


def pytest_configure() -> None:
    """Let tests send Ctrl-C even in a run in the background, for which a shell ignores the signal. Time no example."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("busy", deadline=None, database=None)  # a busy machine proves nothing about a law
    settings.load_profile("busy")


@pytest.hookimpl(tryfirst=True)  # before pytest evaluates -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test."""
    in_groups = getattr(config.option, "loadgroup", False)  # pytest-xdist sets it in its workers
    for item in items:
        used = set(_fixtures(item))
        for server in SERVERS:
            if any(server in name.split("_") for name in used):
                item.add_marker(server)
        if not _by_day(item):
            item.add_marker("night")
        if in_groups:
            for group in [group for fixture, group in GROUPS.items() if fixture in used][:1]:
                item.add_marker(pytest.mark.xdist_group(group))
                if hasattr(item, "_id"):  # since pytest 9.2, which ignores what pytest-xdist 3.8 appends
                    item._id = type(item._id).parse(f"{item.nodeid}@{group}")


def _fixtures(item: pytest.Item) -> Iterator[str]:
    """Yield the fixtures that a test uses, including those chosen by a parameter or by the mark ``disturbs``."""
    chosen = getattr(getattr(item, "callspec", None), "params", {}).get("cluster")
    disturbs = item.get_closest_marker("disturbs") is not None
    for name in (*getattr(item, "fixturenames", ()), f"{chosen}_server"):
        server = name.removesuffix("_server")
        yield f"disturbed_{server}" if disturbs and name != server else name


def _by_day(item: pytest.Item) -> bool:
    case = item.get_closest_marker("mqplug_case")
    wanted = getattr(getattr(item, "module", None), "BY_DAY", None)
    return case is None or wanted is None or case.args[0].id in wanted or case.args[0].group in wanted


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record when a test begins."""
    item.stash[BEGUN] = (_processor_seconds(), time.perf_counter())
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the cost to the last report of a test: of this worker, and of processes that ended during the test."""
    report = yield
    if report.when == "teardown":
        processor, clock = item.stash[BEGUN]
        report.user_properties.append((COST, (_processor_seconds() - processor, time.perf_counter() - clock)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the most expensive tests."""
    reports = [each for each in terminalreporter.stats.get("", []) if isinstance(each, pytest.TestReport)]
    costs = [(cost, each.nodeid) for each in reports for name, cost in each.user_properties if name == COST]
    if costs:
        terminalreporter.section(f"the dearest tests: {COST}")
    for (processor, clock), test in sorted(costs, reverse=True)[:DEAREST]:
        terminalreporter.write_line(f"{processor:6.1f} {clock:6.1f}  {test}")


def _processor_seconds() -> float:
    return sum(os.times()[:4])
