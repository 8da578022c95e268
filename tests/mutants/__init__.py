"""Deliberately broken memory backends: each is wrong in one place, and names the case that must notice."""

from __future__ import annotations

from mutants import (
    altering,
    asynchronous,
    disks,
    durability,
    edge_cases,
    group_descriptions,
    group_edge_cases,
    groups,
    hand_overs,
    large,
    lost_answers,
    members,
    misread_requests,
    nacking,
    producing,
    rare_conditions,
    reading,
    resolving,
    seeking,
    staging,
    transactions,
    unusual_input,
)
from mutants.base import Mutant, Proxy
from mutants.core import CORE_MUTANTS

SECTIONS = (
    lost_answers, reading, seeking, groups, nacking, members, producing, durability, misread_requests, large,
    asynchronous, disks, edge_cases, group_edge_cases, group_descriptions, staging, unusual_input,
    hand_overs, rare_conditions, transactions, resolving, altering,
)  # fmt: skip


def _classes(section):
    classes = [each for each in vars(section).values() if isinstance(each, type) and issubclass(each, Mutant)]
    return [each for each in classes if each.__module__ == section.__name__]


MUTANTS = [
    *(each for section in SECTIONS for each in _classes(section) if "case" in vars(each)),
    *CORE_MUTANTS,
]
SOUND = list(dict.fromkeys([Mutant, *(each.sound for each in MUTANTS)]))
"""Backends without a defect; together they have the capabilities of all mutants."""

__all__ = ["MUTANTS", "SOUND", "Mutant", "Proxy"]
