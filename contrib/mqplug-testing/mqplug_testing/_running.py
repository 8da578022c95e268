"""Runs a case on a bench of its own, as a function or as an item of pytest.

A case that measures time runs alone, also among parallel workers. If the backend lacks an operation, the case checks
that its calls are refused. A case fails if a driver leaks something. The report gets the facts of the backend.
"""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import pytest
from packaging.requirements import Requirement

import mqplug
from mqplug import Error
from mqplug_testing._case_tools.bench import Bench, captured_logs
from mqplug_testing._case_tools.broken_promise import PromiseBroken
from mqplug_testing._case_tools.operation_calls import OPERATION_CALLS, refuses
from mqplug_testing._case_tools.registry import Case
from mqplug_testing._case_tools.run_settings import Profile, RunSettings
from mqplug_testing._harness.harness import Harness

AttemptResult = Literal["passed", "refused"]

TIMED_ATTEMPTS = 3


def run(case: Case, harness: Harness, *, scale: float = 1.0, profile: Profile = "full") -> AttemptResult:
    """Run one case. A failed comparison raises ``AssertionError``; a case that cannot be run is skipped by pytest.

    If the backend does not declare an operation that the case needs, the case passes when calls of that operation are
    refused.
    """
    return run_with(case, harness, RunSettings(scale=scale, profile=profile))


def run_with(
    case: Case, harness: Harness, settings: RunSettings, *, left_out: list[str] | None = None
) -> AttemptResult:
    """Run one case with these settings, and add the variants of it that the profile leaves out to ``left_out``."""
    with running(alone=case.timed):
        for _ in range(TIMED_ATTEMPTS - 1 if case.timed else 0):
            try:
                return _once(case, harness, settings, left_out)
            except (AssertionError, pytest.fail.Exception):
                continue
        return _once(case, harness, settings, left_out)


def _once(case: Case, harness: Harness, settings: RunSettings, left_out: list[str] | None) -> AttemptResult:
    with Bench(harness, settings, case.id) as bench:
        outcome = attempt(case, bench)
    if left_out is not None:
        left_out += bench.left_out
    return outcome


def attempt(case: Case, bench: Bench) -> AttemptResult:
    """Run one case on a bench that was made for it."""
    missing = [name for name in case.needs if not getattr(bench.client.capabilities, name)]
    for capability in missing:
        if capability in OPERATION_CALLS:
            refuses(bench, capability)
            return "refused"
    if reasons := [
        *(f"{bench.client.backend} does not declare {capability}" for capability in missing[:1]),
        *(bench.harness.lacks(hook) for hook in case.hooks if not bench.harness.has(hook, bench.client)),
    ]:
        pytest.skip(", and ".join(reasons[:2]))
    try:
        case.check(bench)
    except (AssertionError, Error) as error:
        if case.level == "must":
            raise
        pytest.xfail(f"{case.id} is a should: {error.brief if isinstance(error, PromiseBroken) else error}")
    if not bench.comparisons:
        pytest.fail(f"{case.id} compared nothing")
    return "passed"


NOTED = pytest.StashKey[dict[str, Any]]()
SETTINGS = pytest.StashKey[RunSettings]()
LEAKS: Final = (
    "error::pytest.PytestUnraisableExceptionWarning",
    "error::pytest.PytestUnhandledThreadExceptionWarning",
    "error:coroutine .* was never awaited:RuntimeWarning",
    "error::ResourceWarning",
)
"""The warnings that fail a case: the driver has leaked something, in this case or in an earlier one."""


def run_item(item: pytest.Item, case: Case, harness: Harness) -> None:
    """Run a case as this item, and note for the report which backend it ran on."""
    settings = item.stash[SETTINGS]
    noted: dict[str, Any] = {"profile": settings.profile, "left_out": []}
    item.stash[NOTED] = noted
    noted |= facts_of(harness)
    if case.id in harness.known_failures and case.id not in settings.known_failures:
        item.add_marker(pytest.mark.xfail(strict=True, reason=harness.known_failures[case.id]))
    with captured_logs("asyncio", logging.ERROR) as complaints:
        outcome = run_with(case, harness, settings, left_out=noted["left_out"])
        gc.collect(1)  # asyncio reports an unfinished task when it is collected
    if complaints:
        pytest.fail(f"{case.id}: the driver left something unfinished; asyncio reports: {complaints[0]}", pytrace=False)
    noted["outcome"] = outcome


SHARED_DIRECTORY_VARIABLE = "MQPLUG_KIT_SHARED"
"""The environment variable of the directory that the workers of a run share. If it is not set, there is one worker."""


@contextmanager
def running(*, alone: bool) -> Iterator[None]:
    """Wait until this case may run: alone, or together with others that may share the machine.

    A case that waits to run alone holds the first lock while it waits, so that no other case starts before it.
    """
    shared = os.environ.get(SHARED_DIRECTORY_VARIABLE)
    if shared is None:
        yield
        return
    with _file(Path(shared, "mqplug-kit-queue")) as queue, _file(Path(shared, "mqplug-kit-cases")) as cases:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(cases, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@contextmanager
def _file(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


_seen: dict[int, tuple[Harness, dict[str, Any]]] = {}


def facts_of(harness: Harness) -> dict[str, Any]:
    """Return the backend's name, versions and capabilities. Each harness connects once for them."""
    if id(harness) not in _seen:
        with harness.connect() as client:
            capabilities = attrs.asdict(client.capabilities)
            found = {"backend": client.backend, "capabilities": capabilities, "versions": versions(client.backend)}
        _seen[id(harness)] = (harness, found)  # keeps the harness alive, so that no other gets its id
    return _seen[id(harness)][1]


@cache
def versions(backend: str) -> dict[str, str]:
    """Return the versions of Python, of mqplug with its kit, and of the backend's distribution."""
    found = {"python": platform.python_version(), "mqplug": mqplug.__version__}
    for entry in entry_points(group="mqplug.backends", name=backend):
        if entry.dist is not None:
            found[entry.dist.name] = entry.dist.version
            for required in map(Requirement, entry.dist.requires or ()):
                if required.marker is None or required.marker.evaluate({"extra": ""}):
                    found[required.name] = version(required.name)
    return found
