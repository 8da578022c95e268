"""The compiled part, mqplug-pulsar-native: which releases of the client it fits. Only this module imports it."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any, Final

import pulsar

from mqplug.spi.compiled import CompiledPart, CompiledUse, Use
from mqplug_pulsar._settings import PulsarSettings

TESTED_CLIENTS: Final = ("3.13.",)
"""The releases of pulsar-client whose objects the compiled part is known to fit."""


def new_part() -> CompiledPart:
    """Return the compiled part, of which nothing is known yet."""
    return CompiledPart("mqplug-pulsar-native", "pulsar-client", _load, logging.getLogger("mqplug.pulsar"))


def _load() -> ModuleType:
    if not pulsar.__version__.startswith(TESTED_CLIENTS):
        raise ImportError(f"it is not tested with pulsar-client {pulsar.__version__}")
    import mqplug_pulsar_native

    return mqplug_pulsar_native


PART = new_part()


def compiled_use(settings: PulsarSettings) -> CompiledUse:
    """Return the use of the compiled part that these settings allow. Raise ``ConfigError`` if they require more."""
    return CompiledUse(PART, settings.native)


def find(settings: PulsarSettings, use: Use) -> Any | None:
    """Return the compiled part; None where the plain client does this. Raises as ``compiled_use`` does."""
    return PART.module if compiled_use(settings).usable(use) else None


def refuse(use: Use, reason: str) -> None:
    """Have the plain client do this for the rest of this process. Log why."""
    PART.refuse(use, reason)


def notes(settings: PulsarSettings) -> list[str]:
    """Return which part reads and which part sends, as sentences for an operator."""
    return compiled_use(settings).notes(f"pulsar-client {pulsar.__version__}")
