"""The settings of a contract run: profile, scale of waiting, seed and known failures."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import attrs
from attrs.validators import gt, in_
from packaging.version import InvalidVersion, Version

from mqplug_testing._case_ids import SINCE, check_known

Profile = Literal["quick", "full", "soak"]

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)  # each includes the cases of the previous ones


def _version(_: object, __: object, text: str | None) -> None:
    try:
        Version(text or "0")
    except InvalidVersion:
        raise ValueError(f"{text!r} is not a version of mqplug; expected one such as 0.1.0") from None


@attrs.frozen(kw_only=True)
class RunSettings:
    """The settings of a test of the contract.

    ``known_failures`` gives the reason of each known failure by case id; one that passes fails the run. Failures of
    cases newer than the version ``kit`` are reported without failing the run. ``scale`` multiplies all waiting.
    ``seed`` decides the random draws of the cases.
    """

    profile: Profile = attrs.field(default="full", validator=in_(PROFILES))
    scale: float = attrs.field(default=1.0, validator=gt(0))
    seed: int = attrs.field(factory=lambda: random.randrange(2**31))
    kit: str | None = attrs.field(default=None, validator=_version)
    known_failures: Mapping[str, str] = attrs.field(factory=dict, validator=check_known)

    def overridden(self, **others: Any) -> RunSettings:
        """Return a copy with these settings, where they are not None."""
        return attrs.evolve(self, **{name: value for name, value in others.items() if value is not None})

    def is_new(self, case: str) -> bool:
        """Return whether a case is newer than the requested version of the kit."""
        return self.kit is not None and Version(SINCE[case]) > Version(self.kit)


def from_environment() -> dict[str, Any]:
    """Return the settings in ``MQPLUG_PROFILE`` and ``MQPLUG_TIME_SCALE``."""
    scale = os.environ.get("MQPLUG_TIME_SCALE")
    return {"profile": os.environ.get("MQPLUG_PROFILE") or None, "scale": float(scale) if scale else None}
