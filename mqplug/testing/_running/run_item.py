"""Runs a case as an item of pytest, and notes for the report which backend it ran on."""

from __future__ import annotations

from typing import Any

import pytest

from mqplug.testing._case_tools.registry import Case
from mqplug.testing._case_tools.run_settings import RunSettings
from mqplug.testing._harness.harness import Harness
from mqplug.testing._running.backend_facts import facts_of
from mqplug.testing._running.run_case import run_with

NOTED = pytest.StashKey[dict[str, Any]]()
SETTINGS = pytest.StashKey[RunSettings]()


def run_item(item: pytest.Item, case: Case, harness: Harness) -> None:
    """Run a case as this item, and note for the report which backend it ran on."""
    settings = item.stash[SETTINGS]
    noted: dict[str, Any] = {"profile": settings.profile}
    item.stash[NOTED] = noted
    noted |= facts_of(harness)
    if case.id in harness.known_failures and case.id not in settings.known_failures:
        item.add_marker(pytest.mark.xfail(strict=True, reason=harness.known_failures[case.id]))
    noted["outcome"] = run_with(case, harness, settings)
