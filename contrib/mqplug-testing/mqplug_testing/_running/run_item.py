"""Runs a case as an item of pytest, fails it for what a driver leaks, and notes which backend it ran on."""

from __future__ import annotations

import gc
import logging
from typing import Any, Final

import pytest

from mqplug_testing._case_tools.captured_logs import captured_logs
from mqplug_testing._case_tools.registry import Case
from mqplug_testing._case_tools.run_settings import RunSettings
from mqplug_testing._harness.harness import Harness
from mqplug_testing._running.backend_facts import facts_of
from mqplug_testing._running.run_case import run_with

NOTED = pytest.StashKey[dict[str, Any]]()
SETTINGS = pytest.StashKey[RunSettings]()
LEAKS: Final = (
    "error::pytest.PytestUnraisableExceptionWarning",
    "error::pytest.PytestUnhandledThreadExceptionWarning",
    "error:coroutine .* was never awaited:RuntimeWarning",
    "error::ResourceWarning",
)
"""The warnings that fail a case: the driver has left something behind, in this case or in one before it."""


def run_item(item: pytest.Item, case: Case, harness: Harness) -> None:
    """Run a case as this item, and note for the report which backend it ran on."""
    settings = item.stash[SETTINGS]
    noted: dict[str, Any] = {"profile": settings.profile}
    item.stash[NOTED] = noted
    noted |= facts_of(harness)
    if case.id in harness.known_failures and case.id not in settings.known_failures:
        item.add_marker(pytest.mark.xfail(strict=True, reason=harness.known_failures[case.id]))
    with captured_logs("asyncio", logging.ERROR) as complaints:
        outcome = run_with(case, harness, settings)
        gc.collect(1)  # asyncio complains of a task when it is collected
    if complaints:
        pytest.fail(f"{case.id}: asyncio complains of what was left behind: {complaints[0]}", pytrace=False)
    noted["outcome"] = outcome
