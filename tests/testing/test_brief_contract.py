"""The brief contract detects what the whole contract does, over the memory backend."""

from __future__ import annotations

from brief_contract import BRIEF
from mutants.matrix import stored
from mutants.unproven import UNPROVEN

from mqplug_testing import CASES


def test_the_brief_contract_kills_every_mutant():
    """One of its cases kills each mutant of the stored matrix; test_matrix.py checks one of these kills of each."""
    assert [name for name, cases in stored().items() if not set(BRIEF) & set(cases)] == []


def test_the_brief_contract_has_what_no_mutant_proves():
    """It has the cases that need another process, which only real brokers can show to hold."""
    assert UNPROVEN.keys() <= set(BRIEF)


def test_the_brief_contract_is_half_of_the_contract():
    """It has cases of the contract, each once, and at most half of them."""
    known = {case.id for case in CASES}
    assert set(BRIEF) <= known
    assert len(set(BRIEF)) == len(BRIEF)
    assert len(BRIEF) < 0.55 * len(known)
