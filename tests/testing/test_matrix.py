"""The contract's cases find out what is broken: each mutant dies of the case that it was made for, each case kills one.

``tests/mutants/matrix.json`` has what kills what. A kill of it that no longer happens fails; after a change that is
meant, ``python -m mutants`` in the folder ``tests`` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mutants import MUTANTS, Mutant
from mutants.child_processes import BY_ID
from mutants.matrix import TIME, kills, proofs, stored
from mutants.trial import SOUND as LIVES
from mutants.unproven import UNPROVEN

pytestmark = [pytest.mark.once, pytest.mark.timeout(300)]
pytest_plugins = "mutants.fixtures"

STORED = stored()
PROOFS = proofs(STORED)
TRIES = 3  # a kill is lost when it does not happen in any of them


@pytest.fixture
def note(request):
    """Keeps what was found out, in the folder of pytest's cache, also of the other workers."""

    def keep(mutant, **found) -> None:
        folder = Path(request.config.cache.mkdir("mutants"))
        (folder / f"{mutant.__name__}.json").write_text(json.dumps(found, indent=1))

    return keep


def test_what_is_not_broken_lives(matrix):
    """KIT-02: without a defect every case passes or is skipped; where one does not, it is not run on what is broken."""
    outcomes = matrix.reached(Mutant).outcomes
    assert {case: outcome for case, outcome in outcomes.items() if outcome not in LIVES} == {}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda kind: kind.__name__)
def test_each_mutant_is_killed(mutant, matrix, note):
    """KIT-02: a backend that is broken in one place fails the case made for it, and those of which it is the proof.

    At night also others that found it out before, as far as its time goes.
    """
    first = list(dict.fromkeys([mutant.case, *PROOFS.get(mutant.__name__, ())]))
    assert set(first) <= set(matrix.reached(mutant.sound).candidates(mutant)), "these do not reach it"
    ran = dict(matrix.outcomes(mutant, first, TIME))
    wanted = {mutant.case, *STORED.get(mutant.__name__, ())} & ran.keys()
    lost = {case: ran[case] for case in sorted(wanted) if not kills(mutant, ran[case])}
    for _ in range(TRIES - 1):
        lost = {case: outcome for case, outcome in matrix.again(mutant, lost) if not kills(mutant, outcome)}
    killers = {case for case, outcome in ran.items() if kills(mutant, outcome)}
    new = sorted(killers - wanted)
    note(mutant, kills=sorted(killers), new=new, lives=sorted(ran.keys() - killers))
    assert lost == {}, f"{mutant.__name__} survives these"


def test_each_case_kills_a_mutant():
    """KIT-02: no case passes whatever happens; the kills that prove it are checked above, in each run."""
    proven = {case for cases in PROOFS.values() for case in cases}
    assert proven | UNPROVEN.keys() == BY_ID.keys()
    assert proven & UNPROVEN.keys() == set()


def test_the_stored_matrix_is_of_these_mutants():
    """What is stored has every mutant, with the case that it was made for, and nothing else."""
    assert STORED.keys() == {mutant.__name__ for mutant in MUTANTS}
    assert [mutant.__name__ for mutant in MUTANTS if mutant.case not in STORED[mutant.__name__]] == []
    assert len(MUTANTS) == len(STORED), "two mutants have the same name"
