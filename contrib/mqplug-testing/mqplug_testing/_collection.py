"""``prove``, and how pytest collects the cases: selected, with settings, time limits and expected failures."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mqplug_testing._case_ids import SINCE, case_ids
from mqplug_testing._case_tools.registry import Case
from mqplug_testing._case_tools.run_settings import Profile, RunSettings, from_environment
from mqplug_testing._harness.harness import Harness
from mqplug_testing._running import LEAKS, SETTINGS, run_item
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


OUT_OF_PROFILE = pytest.StashKey[dict[str, Profile]]()

ID_WORD = re.compile(r"(?<![\w:.+/\\\[\]-])[A-Z]+(?:-[\w-]*)?(?![\w:.+/\\\[\]-])")  # in capitals, as case ids are


def cases_of(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, Case]]:
    """Yield the items that are cases of the contract."""
    for item in items:
        if (marker := item.get_closest_marker("mqplug_case")) is not None:
            yield item, marker.args[0]


def settings_of(item: pytest.Item) -> RunSettings:
    """Return the settings of a test: its author's, overridden by the environment, then by the command line."""
    option = item.config.getoption
    marker = item.get_closest_marker("mqplug_case")
    given = marker.kwargs.get("settings", {}) if marker is not None else {}
    known = _known(option("--mqplug-known-failures"))
    return (
        RunSettings()
        .overridden(**given)
        .overridden(**from_environment())
        .overridden(profile=option("--mqplug-profile"), scale=option("--mqplug-scale"), kit=option("--mqplug-kit"))
        .overridden(seed=option("--mqplug-seed"))
        .overridden(known_failures={**(given.get("known_failures") or {}), **known} if known else None)
    )


def check_options(only: Iterable[str], kit: str | None, known_failures: Path | None) -> None:
    """Raise ``ValueError`` for options of a run that name no case, no version or no file."""
    case_ids(only)
    RunSettings().overridden(kit=kit, known_failures=_known(known_failures))


@cache
def _known(path: Path | str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return {str(case): str(reason) for case, reason in tomllib.loads(Path(path).read_text()).items()}
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"known failures: {error}") from None


def select_cases(items: list[pytest.Item], config: pytest.Config) -> None:
    """Deselect cases outside the profile, set each case's time limit, and mark expected failures."""
    left_out, out_of_profile = list[pytest.Item](), dict[str, Profile]()
    try:
        wanted = case_ids(config.getoption("--mqplug-only") or []) or SINCE.keys()
        for item, case in cases_of(items):
            settings = item.stash[SETTINGS] = settings_of(item)
            if case.id not in wanted:
                left_out.append(item)
                continue
            if not case.runs_in(settings.profile):
                left_out.append(item)
                out_of_profile[case.id] = case.profile
                continue
            item.user_properties += [("mqplug_id", case.id), ("mqplug_rule", case.title), ("mqplug_link", case.link)]
            item.add_marker(pytest.mark.timeout(case.timeout * settings.scale))
            for each in LEAKS:
                item.add_marker(pytest.mark.filterwarnings(each))
            if reason := settings.known_failures.get(case.id):
                item.add_marker(pytest.mark.xfail(strict=True, reason=reason))
            elif settings.is_new(case.id):
                reason = f"new in {case.since}, and the kit is pinned to {settings.kit}"
                item.add_marker(pytest.mark.xfail(strict=False, reason=reason))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    config.option.keyword = _by_id(config.option.keyword, items)
    config.stash[OUT_OF_PROFILE] = out_of_profile
    if (seed := config.getoption("--mqplug-seed")) is not None:
        _shuffle(items, seed)


def _by_id(keyword: str, items: list[pytest.Item]) -> str:
    """Return a ``-k`` expression in which a group, or a case id or its beginning, matches cases by their ids only.

    Otherwise ``CON`` would match every case, because all of them are in ``contract``.
    """
    for item, case in cases_of(items):
        item.extra_keyword_matches.add(f":{case.id}")

    def marked(word: re.Match[str]) -> str:
        group, dash, _ = word[0].partition("-")
        known = any(case.id.startswith(word[0]) for case in CASES if case.group == group)
        return f":{word[0]}{'' if dash else '-'}" if known else word[0]

    return ID_WORD.sub(marked, keyword)


def _shuffle(items: list[pytest.Item], seed: int) -> None:
    """Shuffle the cases by the seed; the other tests stay where they are."""
    shuffled = sorted((item for item, _ in cases_of(items)), key=lambda item: item.nodeid)
    random.Random(seed).shuffle(shuffled)
    cases, drawn = set(shuffled), iter(shuffled)
    items[:] = [next(drawn) if item in cases else item for item in items]
