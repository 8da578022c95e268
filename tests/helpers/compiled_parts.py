"""The compiled parts of plugins, for tests that need them."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

import pytest


def compiled_part(name: str) -> ModuleType:
    """Return a compiled part. If it was not built, skip the module's tests, or fail them if CI is true.

    The environments without compiled parts set ``MQPLUG_WITHOUT_COMPILED_PARTS``. A part that is there must fit.
    """
    try:
        return import_module(name)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == name
        if os.environ.get("CI", "").lower() == "true" and not (
            absent and "MQPLUG_WITHOUT_COMPILED_PARTS" in os.environ
        ):
            raise
        pytest.skip(f"{name} is not built, or does not fit: {error}", allow_module_level=True)
