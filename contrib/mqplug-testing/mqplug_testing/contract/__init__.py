"""The cases of the contract, each a test over the fixture ``bench`` of ``conftest.py``.

``pytest --pyargs mqplug_testing.contract --mqplug-url=memory://`` runs them over any backend.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from mqplug_testing._case_tools.registry import Case

__all__ = ["CASES"]

_MODULES = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__) if found.name != "conftest"]

CASES: Final[tuple[Case, ...]] = tuple(
    sorted((case for module in _MODULES for case in module.case.cases), key=lambda case: case.id)
)
