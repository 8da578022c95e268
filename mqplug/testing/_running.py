"""From cases to tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from mqplug import Error
from mqplug.testing._bench import Bench
from mqplug.testing._cases import CASES
from mqplug.testing._harness import Harness
from mqplug.testing._registry import Case


def run(case: Case, harness: Harness, *, scale: float = 1.0) -> None:
    """Run one case; a failed comparison is an ``AssertionError``, what cannot be run a pytest skip."""
    with Bench(harness, scale) as bench:
        _skip_what_is_missing(case, bench)
        try:
            case.check(bench)
        except (AssertionError, Error) as error:
            if case.level == "must":
                raise
            pytest.xfail(f"{case.id} is a should: {error}")
        if not bench.comparisons:
            pytest.fail(f"{case.id} compared nothing")


def _skip_what_is_missing(case: Case, bench: Bench) -> None:
    for capability in case.needs:
        if not getattr(bench.client.capabilities, capability):
            pytest.skip(f"{bench.client.backend} does not declare {capability}")
    for hook in case.hooks:
        if not bench.harness.has(hook, bench.client):
            pytest.skip(f"the harness has no {hook}")


def contract(
    *,
    expected_failures: Mapping[str, str] | None = None,
    only: Iterable[str] = (),
    scale: float = 1.0,
) -> Callable[[Case, Harness], None]:
    """A test of the whole contract over the fixture ``harness``: assign it to ``test_contract``.

    ``expected_failures`` says for case ids why they fail; one that passes after all fails the run. ``only`` chooses
    cases by id or by the first part of it, such as ``"SEEK"``. ``scale`` stretches all waiting, and so does the
    environment variable ``MQPLUG_TIME_SCALE``.
    """
    known = dict(expected_failures or {})
    if unknown := sorted(known.keys() - {case.id for case in CASES}):
        raise ValueError(f"there is no case {', '.join(unknown)}")
    wanted = tuple(only)
    stretch = scale * float(os.environ.get("MQPLUG_TIME_SCALE", "1"))
    chosen = [case for case in CASES if not wanted or case.id in wanted or case.id.split("-")[0] in wanted]

    @pytest.mark.parametrize("case", [_parameter(case, known.get(case.id), stretch) for case in chosen])
    def test_contract(case: Case, harness: Harness) -> None:
        """Each promise of the contract holds."""
        run(case, harness, scale=stretch)

    return test_contract


def _parameter(case: Case, expected_failure: str | None, scale: float) -> Any:
    marks = [pytest.mark.mqplug_case(case), pytest.mark.timeout(case.timeout * scale)]
    if expected_failure is not None:
        marks.append(pytest.mark.xfail(strict=True, reason=expected_failure))
    return pytest.param(case, id=case.id, marks=marks)
