"""The contract accepts odd and legal backends: in their ids, batches and times, and in missing capabilities."""

from __future__ import annotations

import pytest
from innocents import LACKING, PECULIAR
from innocents.lacking import concerned
from innocents.peculiar import Stalls
from mutants import SOUND as SOUND_BACKENDS
from mutants.base import Mutant
from mutants.child_processes import BY_ID, PATIENCE, outcomes, random_programs
from mutants.trial import SOUND

pytestmark = [pytest.mark.night, pytest.mark.timeout(300)]
pytest_plugins = "mutants.fixtures"


def failures(kind, cases):
    """Return the outcomes of the failed ones of these cases on this backend."""
    found = outcomes(kind, dict.fromkeys(cases, PATIENCE[-1]))
    return {case: outcome for case, outcome in found if outcome not in SOUND}


@pytest.mark.parametrize("kind", PECULIAR, ids=lambda kind: kind.__name__)
def test_who_is_odd_passes(kind):
    """A backend with a legal peculiarity passes the whole contract."""
    assert failures(kind, BY_ID) == {}


def test_a_busy_machine_is_no_defect():
    """Cases of delays compare when a message came, so that a wait that outlasts the delay fails none."""
    assert failures(Stalls, ["ACK-08", "ACK-08-shared"]) == {}


@pytest.mark.parametrize("kind", LACKING, ids=lambda kind: kind.without)
def test_who_lacks_something_passes(kind, matrix):
    """A backend that lacks one capability passes: cases that need it are refused or skipped, and no other uses it."""
    needs = {case.id: case.needs for case in BY_ID.values()}
    assert failures(kind, concerned(kind, matrix.reached(Mutant), needs)) == {}


@pytest.mark.parametrize("kind", [*SOUND_BACKENDS, *PECULIAR, *LACKING], ids=lambda kind: kind.__name__)
def test_random_programs_break_no_rule(kind):
    """Random programs over a backend that is sound, odd or lacks one capability break no rule of the model."""
    assert random_programs(kind, 40, 11) == "survives"
