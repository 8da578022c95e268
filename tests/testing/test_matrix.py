"""The contract's cases detect defects: each mutant is killed by the case that it was made for, and each case kills one.

``tests/mutants/matrix.json`` has what kills what. A kill of it that no longer happens fails; after a change that is
meant, ``python -m mutants`` in the folder ``tests`` writes it anew. By day only some mutants run, which
``tests/mutants/by_day.py`` chooses.
"""

from __future__ import annotations

import pytest
from brief_contract import BRIEF
from mutants import MUTANTS, Mutant
from mutants.by_day import by_day, change, day
from mutants.child_processes import BY_ID, PATIENCE, outcomes
from mutants.matrix import kills, proofs, stored
from mutants.trial import SOUND as LIVES
from mutants.unproven import UNPROVEN

pytestmark = pytest.mark.timeout(300)
pytest_plugins = "mutants.fixtures"

STORED = stored()
PROOFS = proofs(STORED)
TRIES = (PATIENCE[0], *PATIENCE)  # with that patience; a kill is lost if it happens in none of them
BY_DAY = set(by_day(change(), day()))
PARAMETERS = [pytest.param(each, marks=() if each in BY_DAY else pytest.mark.night) for each in MUTANTS]


def checked(mutant):
    """Return the cases that must kill a mutant: its own, those that it proves, and one of the brief contract."""
    cases = {mutant.case, *PROOFS[mutant.__name__]}
    if not cases.intersection(BRIEF):
        cases.add(min(set(BRIEF).intersection(STORED[mutant.__name__])))
    return sorted(cases)


@pytest.mark.night
def test_what_is_not_broken_lives(matrix):
    """KIT-02: without a defect every case passes, is refused or is skipped."""
    outcomes = matrix.reached(Mutant).outcomes
    assert {case: outcome for case, outcome in outcomes.items() if outcome not in LIVES} == {}


@pytest.mark.parametrize("mutant", PARAMETERS, ids=lambda kind: kind.__name__)
def test_each_mutant_is_killed(mutant):
    """KIT-02: a backend with one defect fails the cases that must detect it, which the sound backend passes."""
    lost = checked(mutant)
    for patience in TRIES:
        tried = dict(outcomes(mutant, dict.fromkeys(lost, patience)))
        found = {case: patience for case in lost if kills(mutant, tried[case])}
        proved = {case for case, outcome in outcomes(mutant.sound, found) if outcome in LIVES}
        lost = [case for case in lost if case not in proved]
        if not lost:
            return
    pytest.fail(f"{mutant.__name__} survives, or the sound backend does not: { {case: tried[case] for case in lost} }")


@pytest.mark.night
def test_what_kills_a_mutant_reaches_it(matrix):
    """A case that kills a mutant executes the replaced code, so that ``python -m mutants`` tries it."""
    able = {mutant: matrix.reached(mutant.sound).candidates(mutant) for mutant in MUTANTS}
    unreached = {mutant.__name__: set(checked(mutant)).difference(cases) for mutant, cases in able.items()}
    assert {name: cases for name, cases in unreached.items() if cases} == {}


def test_each_case_kills_a_mutant():
    """KIT-02: each case fails on some mutant; the kills that prove it are checked above, each night."""
    proven = {case for mutant in MUTANTS for case in checked(mutant)}
    assert proven | UNPROVEN.keys() == BY_ID.keys()
    assert proven & UNPROVEN.keys() == set()


def test_day_and_night_are_everything():
    """Each mutant runs by day or is marked for the night, so that ``pytest -m ""`` runs them all."""
    assert [parameter.values for parameter in PARAMETERS] == [(mutant,) for mutant in MUTANTS]
    assert {parameter.values[0] for parameter in PARAMETERS if not parameter.marks} == BY_DAY


def test_the_stored_matrix_is_of_these_mutants():
    """The stored matrix has exactly these mutants, each with the case that it was made for."""
    assert STORED.keys() == {mutant.__name__ for mutant in MUTANTS}
    assert [mutant.__name__ for mutant in MUTANTS if mutant.case not in STORED[mutant.__name__]] == []
    assert len(MUTANTS) == len(STORED), "two mutants have the same name"
