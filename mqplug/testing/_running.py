"""Running cases: one by one, and as tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import pytest

from mqplug import Error
from mqplug.testing._bench import Bench
from mqplug.testing._broken import Broken
from mqplug.testing._harness import Harness
from mqplug.testing._operations import OPERATIONS, refuses
from mqplug.testing._registry import Case, Profile
from mqplug.testing._settings import Settings
from mqplug.testing._turns import turn
from mqplug.testing.contract import CASES

Outcome = Literal["passed", "refused"]

BEST_OF = 3


def run(case: Case, harness: Harness, *, scale: float = 1.0, profile: Profile = "full") -> Outcome:
    """Run one case; a failed comparison is an ``AssertionError``, what cannot be run a pytest skip.

    Where the backend does not declare an operation that the case needs, it has passed when the calls of that operation
    are refused.
    """
    return run_with(case, harness, Settings(scale=scale, profile=profile))


def run_with(case: Case, harness: Harness, settings: Settings) -> Outcome:
    """Run one case as the settings say."""
    with turn(alone=case.timed):
        for _ in range(BEST_OF - 1 if case.timed else 0):
            try:
                return _once(case, harness, settings)
            except (AssertionError, pytest.fail.Exception):
                continue
        return _once(case, harness, settings)


def _once(case: Case, harness: Harness, settings: Settings) -> Outcome:
    with Bench(harness, settings, case.id) as bench:
        return attempt(case, bench)


def attempt(case: Case, bench: Bench) -> Outcome:
    """Run one case on a bench that was made for it."""
    missing = [name for name in case.needs if not getattr(bench.client.capabilities, name)]
    for capability in missing:
        if capability in OPERATIONS:
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
        pytest.xfail(f"{case.id} is a should: {error.brief if isinstance(error, Broken) else error}")
    if not bench.comparisons:
        pytest.fail(f"{case.id} compared nothing")
    return "passed"


def prove(
    *,
    known_failures: Mapping[str, str] | None = None,
    only: Iterable[str] = (),
    profile: Profile | None = None,
    scale: float | None = None,
    kit: str | None = None,
) -> Callable[[Case, Harness, pytest.FixtureRequest], None]:
    """A test of the whole contract over the fixture ``harness``: assign it to ``test_contract``.

    ``known_failures`` says for case ids why they fail; one that passes after all fails the run. ``only`` chooses
    cases by id or by the first part of it, such as ``"SEEK"``. ``profile`` is quick, full or soak; ``scale`` stretches
    all waiting. With ``kit``, a version, cases that are newer are reported and do not fail. What the command line or
    the environment says of these comes first.
    """
    told = {"known_failures": known_failures, "profile": profile, "scale": scale, "kit": kit}
    Settings().told(**told)  # refuses what is wrong, here where it is written
    wanted = tuple(only)
    chosen = [case for case in CASES if not wanted or case.id in wanted or case.group in wanted]
    if strangers := [each for each in wanted if not any(each in (case.id, case.group) for case in chosen)]:
        raise ValueError(f"there is no case {', '.join(strangers)}")

    @pytest.mark.parametrize("case", [_parameter(case, told) for case in chosen])
    def test_contract(case: Case, harness: Harness, request: pytest.FixtureRequest) -> None:
        """Each promise of the contract holds."""
        from mqplug.testing._items import run_item

        run_item(request.node, case, harness)

    return test_contract


def _parameter(case: Case, told: Mapping[str, Any]) -> Any:
    return pytest.param(case, id=case.id, marks=pytest.mark.mqplug_case(case, told=told))
