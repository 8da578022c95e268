"""Deliberately broken memory backends: each is wrong in one place, and says which case has to notice."""

from __future__ import annotations

from mutants import giving_back, groups, lasting, members, reading, seeking, storing
from mutants.also import ALSO, UNPROVEN
from mutants.base import Mutant, Proxy
from mutants.core import CORE_MUTANTS

MUTANTS = [
    each
    for section in (reading, seeking, groups, giving_back, members, storing, lasting)
    for each in vars(section).values()
    if isinstance(each, type)
    and issubclass(each, Mutant)
    and "case" in vars(each)
    and each.__module__ == section.__name__
]
SOUND = {each.case: getattr(each, "sound", Mutant) for each in MUTANTS}
"""For each case a backend without a defect, that can do what the case needs."""

__all__ = ["ALSO", "CORE_MUTANTS", "MUTANTS", "SOUND", "UNPROVEN", "Mutant", "Proxy"]
