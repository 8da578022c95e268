"""Decides whether the compiled part of mqplug-pulsar-native or the plain path reads and sends, and reports why.

If the compiled part behaves differently from the plain path, it is given up for the rest of the process: separately for
reading and for sending.
"""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType
from typing import Any, Literal

import attrs
import pulsar

import mqplug
from mqplug_pulsar._settings import PulsarSettings

Kind = Literal["reading", "sending"]
DISTRIBUTION = "mqplug-pulsar-native"
TESTED_CLIENTS = ("3.13.",)
"""The releases of pulsar-client whose objects the compiled part is known to fit."""
NOT_INSTALLED = f"{DISTRIBUTION} is not installed"
_FIXES = {NOT_INSTALLED: "Run pip install 'mqplug-pulsar[native]', or set native=auto"}
_VERBS: dict[Kind, str] = {"reading": "reads", "sending": "sends"}

logger = logging.getLogger("mqplug.pulsar")


@attrs.frozen
class _Loaded:
    """The compiled part, or the reason why it cannot be used."""

    module: ModuleType | None
    reason: str = ""


_given_up: dict[Kind, str] = {}


@cache
def _load() -> _Loaded:
    """Import the compiled part, once. Log why this failed, unless the part is simply not installed."""
    if not pulsar.__version__.startswith(TESTED_CLIENTS):
        found = _Loaded(None, f"it is not tested with pulsar-client {pulsar.__version__}")
    else:
        found = _import()
    if found.module is None and found.reason != NOT_INSTALLED:
        logger.warning("the plain client reads and sends instead of %s: %s", DISTRIBUTION, found.reason)
    return found


def _import() -> _Loaded:
    try:
        import mqplug_pulsar_native
    except ModuleNotFoundError as error:
        if error.name == "mqplug_pulsar_native":
            return _Loaded(None, NOT_INSTALLED)
        return _Loaded(None, "it was installed without its compiled part: a C compiler was missing")
    except ImportError as error:
        return _Loaded(None, str(error))
    return _Loaded(mqplug_pulsar_native)


def find(settings: PulsarSettings, kind: Kind) -> Any | None:
    """Return the compiled part; None where the plain path reads, or sends.

    Raise ``ConfigError`` if the settings require it and it cannot be used.
    """
    reason = _reason_against(settings, kind)
    if reason is None:
        return _load().module
    if settings.native == "required":
        raise mqplug.ConfigError(
            f"native=required, but {DISTRIBUTION} cannot be used for {kind}: {reason}",
            backend="pulsar",
            fix=_FIXES.get(reason, "Install versions that fit each other, or set native=auto"),
        )
    return None


def give_up(kind: Kind, reason: str) -> None:
    """Make the plain path read, or send, for the rest of this process. Log why."""
    if kind not in _given_up:
        _given_up[kind] = reason
        logger.warning("the plain client now %s instead of %s: %s", _VERBS[kind], DISTRIBUTION, reason)


def notes(settings: PulsarSettings) -> list[str]:
    """Return which part reads and which part sends, as sentences for an operator."""
    reasons = {kind: _reason_against(settings, kind) for kind in _VERBS}
    used = " and ".join(_VERBS[kind] for kind, reason in reasons.items() if reason is None)
    found = []
    if used:
        version = getattr(_load().module, "__version__", "")
        found.append(f"{used} through {DISTRIBUTION} {version} over pulsar-client {pulsar.__version__}")
    for reason in dict.fromkeys(reason for reason in reasons.values() if reason is not None):
        plain = " and ".join(_VERBS[kind] for kind, each in reasons.items() if each == reason)
        found.append(f"{plain} only through pulsar-client {pulsar.__version__}: {reason}")
    return found


def _reason_against(settings: PulsarSettings, kind: Kind) -> str | None:
    if settings.native == "off":
        return "native is off"
    loaded = _load()
    return loaded.reason if loaded.module is None else _given_up.get(kind)
