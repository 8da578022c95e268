"""The brief contract: as few cases as kill all mutants, and the cases that no mutant proves."""

from __future__ import annotations

import json
from pathlib import Path

from mqplug_testing import CASES

MATRIX = Path(__file__).parents[1] / "mutants" / "matrix.json"  # read from the file: importing the mutants takes longer


def _killed() -> dict[str, set[str]]:
    """Return the mutants that each case kills, as the stored matrix says."""
    killed: dict[str, set[str]] = {}
    for mutant, sections in json.loads(MATRIX.read_text()).items():
        for section, numbers in sections.items():
            for number in numbers.split():
                killed.setdefault(f"{section}-{number}", set()).add(mutant)
    return killed


def _brief() -> tuple[str, ...]:
    """Choose repeatedly the case that kills most of the remaining mutants."""
    killed = _killed()
    chosen = [case.id for case in CASES if case.id not in killed]
    left = set().union(*killed.values())
    while left:
        best = max(sorted(killed), key=lambda case: len(killed[case] & left))
        chosen.append(best)
        left -= killed[best]
    return tuple(sorted(chosen))


BRIEF: tuple[str, ...] = _brief()
