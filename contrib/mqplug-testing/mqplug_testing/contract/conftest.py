"""The fixtures of the cases, for running them by URL or one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from mqplug_testing._harness.harness import Harness, harness_for
from mqplug_testing._running import run_item


@pytest.fixture(scope="session")
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """Yield the harness of ``--mqplug-url``, or of the memory backend if no URL is given."""
    url = request.config.getoption("--mqplug-url") or os.environ.get("MQPLUG_URL") or "memory://"
    with harness_for(url) as found:
        yield found


@pytest.fixture
def bench(harness: Harness) -> Harness:
    """Return the harness, from which each attempt of a case makes its own bench."""
    return harness


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a case as ``prove`` runs it."""
    marker = pyfuncitem.get_closest_marker("mqplug_case")
    if marker is None:
        return None
    harness = pyfuncitem.funcargs["bench"]
    assert isinstance(harness, Harness)
    run_item(pyfuncitem, marker.args[0], harness)
    return True
