"""Cases of the contract, and the decorator that registers them by id."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Literal

import attrs
import pytest

from mqplug_testing._case_ids import SINCE
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.run_settings import PROFILES, Profile

Level = Literal["must", "should"]
CaseFunction = Callable[[Bench], None]


@attrs.frozen
class Case:
    """A promise of the contract, and the function that checks it.

    ``needs`` names the capabilities, and ``hooks`` the hooks of the harness, without which there is nothing to check.
    The failure of a ``should`` is reported without failing the run. ``profile`` is the smallest that runs it. A
    ``timed`` case measures time: it runs alone, and passes if one of three attempts does.
    """

    id: str
    check: CaseFunction
    needs: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    level: Level = "must"
    timeout: float = 120.0
    profile: Profile = "quick"
    timed: bool = False

    @property
    def title(self) -> str:
        """The promise, in one sentence."""
        return " ".join((inspect.getdoc(self.check) or "").split())

    @property
    def link(self) -> str:
        """The paragraph of the documentation about it; the variants of a rule for several modes share one."""
        return f"contract-rules#{'-'.join(self.id.split('-')[:2]).lower()}"

    @property
    def headline(self) -> str:
        """The first line of a failure."""
        return f"{self.id}: {self.title} ({self.link})"

    @property
    def since(self) -> str:
        """The version of mqplug that introduced this promise."""
        return SINCE[self.id]

    @property
    def group(self) -> str:
        """The section of the contract that it belongs to, such as ``SEEK``."""
        return self.id.partition("-")[0]

    def runs_in(self, profile: Profile) -> bool:
        """Return whether this profile includes it."""
        return PROFILES.index(self.profile) <= PROFILES.index(profile)


class Registry:
    """The cases of one module."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def __call__(
        self,
        name: str,
        *,
        needs: tuple[str, ...] = (),
        hooks: tuple[str, ...] = (),
        level: Level = "must",
        timeout: float = 120.0,
        profile: Profile = "quick",
        timed: bool = False,
    ) -> Callable[[CaseFunction], CaseFunction]:
        """Register the decorated function as the case of this id, such as ``SEEK-07`` or ``ACK-07-shared``.

        It is also marked for pytest, which collects it by its name.
        """

        def add(check: CaseFunction) -> CaseFunction:
            case = Case(name, check, needs, hooks, level, timeout, profile, timed)
            self.cases.append(case)
            return pytest.mark.mqplug_case(case)(check)

        return add
