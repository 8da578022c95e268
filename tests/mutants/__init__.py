"""Deliberately broken memory backends: each is wrong in one place, and says which case has to notice."""

from __future__ import annotations

from mutants import groups, reading, seeking, storing
from mutants.base import Mutant, Proxy
from mutants.core import CORE_MUTANTS

MUTANTS = [
    each
    for section in (reading, seeking, groups, storing)
    for each in vars(section).values()
    if isinstance(each, type) and issubclass(each, Mutant) and each is not Mutant
]

__all__ = ["CORE_MUTANTS", "MUTANTS", "Mutant", "Proxy"]
