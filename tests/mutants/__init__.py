"""Deliberately broken memory backends: each is wrong in one place, and says which case has to notice."""

from __future__ import annotations

from mutants import (
    answers,
    asynchronous,
    edges,
    edges_of_groups,
    giving_back,
    groups,
    handing_over,
    large,
    lasting,
    members,
    mistakes,
    more,
    oddities,
    rarely,
    reading,
    seeking,
    staging,
    storing,
)
from mutants.base import Mutant, Proxy
from mutants.core import CORE_MUTANTS

SECTIONS = (
    answers, reading, seeking, groups, giving_back, members, storing, lasting, mistakes, large, asynchronous, more,
    edges, edges_of_groups, staging, oddities, handing_over, rarely,
)  # fmt: skip


def _classes(section):
    classes = [each for each in vars(section).values() if isinstance(each, type) and issubclass(each, Mutant)]
    return [each for each in classes if each.__module__ == section.__name__]


MUTANTS = [
    *(each for section in SECTIONS for each in _classes(section) if "case" in vars(each)),
    *CORE_MUTANTS,
]
SOUND = list(dict.fromkeys([Mutant, *(each.sound for each in MUTANTS)]))
"""Backends without a defect; together they can do what every mutant can."""

__all__ = ["MUTANTS", "SOUND", "Mutant", "Proxy"]
