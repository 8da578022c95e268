"""Cases, by id."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Literal

import attrs
import pytest

from mqplug.testing._case_ids import SINCE
from mqplug.testing._cases.bench import Bench
from mqplug.testing._cases.run_settings import PROFILES, Profile

Level = Literal["must", "should"]
CaseFunction = Callable[[Bench], None]


@attrs.frozen
class Case:
    """One promise, and the function that checks it.

    ``needs`` names capabilities and ``hooks`` parts of the harness without which there is nothing to check. A
    ``should`` is reported, and does not fail. ``profile`` is the first that runs it. A ``timed`` case measures the
    clock: it runs alone, and counts by the best of three.
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
        """Where the documentation says more of it; what is the same in several modes has one paragraph."""
        return f"contract-rules#{'-'.join(self.id.split('-')[:2]).lower()}"

    @property
    def headline(self) -> str:
        """What a failure is called."""
        return f"{self.id}: {self.title} ({self.link})"

    @property
    def since(self) -> str:
        """The version of mqplug that first made this promise."""
        return SINCE[self.id]

    @property
    def group(self) -> str:
        """The section of the contract that it belongs to, such as ``SEEK``."""
        return self.id.partition("-")[0]

    def runs_in(self, profile: Profile) -> bool:
        """Whether this profile has it."""
        return PROFILES.index(self.profile) <= PROFILES.index(profile)


class Registry:
    """Collects the cases of one module."""

    def __init__(self, section: str) -> None:
        self.section = section
        self.cases: list[Case] = []

    def __call__(
        self,
        number: int,
        *,
        mode: str = "",
        needs: tuple[str, ...] = (),
        hooks: tuple[str, ...] = (),
        level: Level = "must",
        timeout: float = 120.0,
        profile: Profile = "quick",
        timed: bool = False,
    ) -> Callable[[CaseFunction], CaseFunction]:
        """Make the decorated function the case of this number, or that part of it which is about a mode of groups.

        It is marked for pytest as well, which collects it by its name.
        """

        def add(check: CaseFunction) -> CaseFunction:
            part = f"-{mode}" if mode else ""
            name = f"{self.section}-{number:02}{part}"
            case = Case(name, check, needs, hooks, level, timeout, profile, timed)
            self.cases.append(case)
            return pytest.mark.mqplug_case(case)(check)

        return add
