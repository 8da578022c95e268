"""``prove``: the contract as a parametrised test in a plugin's own test suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from mqplug_testing._case_ids import case_ids
from mqplug_testing._case_tools.registry import Case
from mqplug_testing._case_tools.run_settings import Profile, RunSettings
from mqplug_testing._harness.harness import Harness
from mqplug_testing._running.run_item import run_item
from mqplug_testing.contract import CASES


def prove(
    *,
    known_failures: Mapping[str, str] | None = None,
    only: Iterable[str] = (),
    profile: Profile | None = None,
    scale: float | None = None,
    kit: str | None = None,
) -> Callable[[Case, Harness, pytest.FixtureRequest], None]:
    """Return a test of the whole contract over the fixture ``harness``: assign it to ``test_contract``.

    ``known_failures`` gives the reason of each known failure by case id; one that passes fails the run. ``only``
    selects cases by a group, an id, or its beginning: ``"SEEK"``, ``"SEEK-05"``, ``"SEEK-1"``. ``profile`` is quick,
    full or soak; ``scale`` multiplies all waiting. With ``kit``, a version, failures of newer cases are reported
    without failing the run. The command line and the environment take precedence over these.
    """
    given = {"known_failures": known_failures, "profile": profile, "scale": scale, "kit": kit}
    RunSettings().overridden(**given)  # refuses wrong values at the call
    wanted = case_ids(only)
    chosen = [case for case in CASES if not wanted or case.id in wanted]

    @pytest.mark.parametrize("case", [_parameter(case, given) for case in chosen])
    def test_contract(case: Case, harness: Harness, request: pytest.FixtureRequest) -> None:
        """Each promise of the contract holds."""
        run_item(request.node, case, harness)

    return test_contract


def _parameter(case: Case, given: Mapping[str, Any]) -> Any:
    return pytest.param(case, id=case.id, marks=pytest.mark.mqplug_case(case, settings=given))
