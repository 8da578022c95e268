"""Cases, by id."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import attrs

from mqplug.testing._manifest import SINCE

if TYPE_CHECKING:
    from mqplug.testing._bench import Bench

Level = Literal["must", "should"]
Check = Callable[["Bench"], None]


@attrs.frozen
class Case:
    """One promise, and the function that checks it.

    ``needs`` names capabilities and ``hooks`` parts of the harness without which it is skipped. A ``should`` is
    reported, and does not fail.
    """

    id: str
    check: Check
    needs: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    level: Level = "must"
    timeout: float = 120.0

    @property
    def title(self) -> str:
        """The promise, in one sentence."""
        return " ".join((inspect.getdoc(self.check) or "").split())

    @property
    def since(self) -> str:
        """The version of mqplug that first made this promise."""
        return SINCE[self.id]


class Registry:
    """Collects the cases of one section of the catalogue."""

    def __init__(self, section: str) -> None:
        self.section = section
        self.cases: list[Case] = []

    def __call__(
        self,
        number: int,
        *,
        needs: tuple[str, ...] = (),
        hooks: tuple[str, ...] = (),
        level: Level = "must",
        timeout: float = 120.0,
        mode: str = "",
    ) -> Callable[[Check], Check]:
        """Make the decorated function the case of this number, or that part of it which is about a mode of groups."""

        def add(check: Check) -> Check:
            part = f"-{mode}" if mode else ""
            self.cases.append(Case(f"{self.section}-{number:02}{part}", check, needs, hooks, level, timeout))
            return check

        return add
