"""How the contract is run: which profile, how patiently, and what is known to fail."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import attrs
from attrs.validators import gt, in_
from packaging.version import InvalidVersion, Version

from mqplug.testing._case_ids import SINCE, check_known

Profile = Literal["quick", "full", "soak"]

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)  # each runs the cases of those before it, and more


def _version(_: object, __: object, text: str | None) -> None:
    try:
        Version(text or "0")
    except InvalidVersion:
        raise ValueError(f"{text!r} is no version of mqplug; one looks like 0.1.0") from None


@attrs.frozen(kw_only=True)
class RunSettings:
    """What a test of the contract was told.

    ``known_failures`` has for case ids why they fail; one that passes after all fails the run. Cases that are newer
    than the version ``kit`` are reported, and do not fail. ``scale`` stretches all waiting. What a case draws by lot is
    decided by ``seed``.
    """

    profile: Profile = attrs.field(default="full", validator=in_(PROFILES))
    scale: float = attrs.field(default=1.0, validator=gt(0))
    seed: int = attrs.field(factory=lambda: random.randrange(2**31))
    kit: str | None = attrs.field(default=None, validator=_version)
    known_failures: Mapping[str, str] = attrs.field(factory=dict, validator=check_known)

    def told(self, **others: Any) -> RunSettings:
        """With what was said elsewhere, where anything was said."""
        return attrs.evolve(self, **{name: value for name, value in others.items() if value is not None})

    def is_new(self, case: str) -> bool:
        """Whether a case came after the version of the kit that is asked for."""
        return self.kit is not None and Version(SINCE[case]) > Version(self.kit)


def from_environment() -> dict[str, Any]:
    """What the environment says: ``MQPLUG_PROFILE`` and ``MQPLUG_TIME_SCALE``."""
    scale = os.environ.get("MQPLUG_TIME_SCALE")
    return {"profile": os.environ.get("MQPLUG_PROFILE") or None, "scale": float(scale) if scale else None}
