"""Runs one case: on a bench of its own, alone if it measures time, and as a refusal where an operation is missing."""

from __future__ import annotations

from typing import Literal

import pytest

from mqplug import Error
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.broken_promise import PromiseBroken
from mqplug_testing._case_tools.operation_calls import OPERATION_CALLS, refuses
from mqplug_testing._case_tools.registry import Case
from mqplug_testing._case_tools.run_settings import Profile, RunSettings
from mqplug_testing._harness.harness import Harness
from mqplug_testing._running.running_alone import running

AttemptResult = Literal["passed", "refused"]

TIMED_ATTEMPTS = 3


def run(case: Case, harness: Harness, *, scale: float = 1.0, profile: Profile = "full") -> AttemptResult:
    """Run one case. A failed comparison raises ``AssertionError``, a case that cannot be run is a pytest skip.

    If the backend does not declare an operation that the case needs, the case passes when calls of that operation are
    refused.
    """
    return run_with(case, harness, RunSettings(scale=scale, profile=profile))


def run_with(case: Case, harness: Harness, settings: RunSettings) -> AttemptResult:
    """Run one case with these settings."""
    with running(alone=case.timed):
        for _ in range(TIMED_ATTEMPTS - 1 if case.timed else 0):
            try:
                return _once(case, harness, settings)
            except (AssertionError, pytest.fail.Exception):
                continue
        return _once(case, harness, settings)


def _once(case: Case, harness: Harness, settings: RunSettings) -> AttemptResult:
    with Bench(harness, settings, case.id) as bench:
        return attempt(case, bench)


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
