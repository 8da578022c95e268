"""Random programs kill the mutants of drivers, except those of which ``mutants.survivors`` says why not."""

from __future__ import annotations

import pytest
from mutants import SOUND
from mutants.random_programs import ALIVE, SEEDS, killed_by
from mutants.survivors import DRIVERS, SURVIVORS

pytestmark = pytest.mark.timeout(600)
MORTAL = [each for each in DRIVERS if each.__name__ not in SURVIVORS]


def test_survivors_are_drivers_mutants():
    """Each survivor that has a reason is a mutant of a driver."""
    assert SURVIVORS.keys() - {each.__name__ for each in DRIVERS} == set()


@pytest.mark.parametrize("kind", [MORTAL[0]], ids=lambda kind: kind.__name__)
def test_a_mutant_dies(kind):
    """By day one mutant shows that random programs kill."""
    assert killed_by(kind) not in ALIVE


@pytest.mark.night
@pytest.mark.parametrize("kind", MORTAL[1:], ids=lambda kind: kind.__name__)
def test_each_other_mutant_dies(kind):
    """A mutant without a reason to survive dies by random programs."""
    assert killed_by(kind) not in ALIVE


@pytest.mark.night
@pytest.mark.parametrize("kind", SOUND, ids=lambda kind: kind.__name__)
def test_sound_drivers_live(kind):
    """The same programs find nothing in the sound drivers of which the mutants are made."""
    assert killed_by(kind, SEEDS[:1]) in ALIVE
