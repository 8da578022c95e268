"""The brief contract finds out what the whole contract does, over the memory backend."""

from __future__ import annotations

from brief_contract import BRIEF
from mutants.matrix import stored
from mutants.unproven import UNPROVEN

from mqplug_testing import CASES


def test_the_brief_contract_kills_every_mutant():
    """Each mutant of the stored matrix dies of one of its cases; test_matrix.py checks one of these kills of each."""
    assert [name for name, cases in stored().items() if not set(BRIEF) & set(cases)] == []


def test_the_brief_contract_has_what_no_mutant_proves():
    """A case that needs another process is in it: real brokers alone can show that it holds."""
    assert UNPROVEN.keys() <= set(BRIEF)


def test_the_brief_contract_is_half_of_the_contract():
    """It names cases of the contract, each once, and few enough to be brief."""
    known = {case.id for case in CASES}
    assert set(BRIEF) <= known
    assert len(set(BRIEF)) == len(BRIEF)
    assert len(BRIEF) < 0.55 * len(known)
