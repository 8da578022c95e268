"""The page of the modelled rules: each section of the rules is modelled, or says why it is not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from mqplug_testing.model import RULES

SOURCE = Path(__file__).parents[2] / "docs/modelled_rules.py"


@pytest.fixture(scope="module")
def page():
    """Return the module that makes the page."""
    spec = importlib.util.spec_from_file_location("modelled_rules", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_section_is_modelled_or_says_why_not(page):
    """A section of the rules without a modelled sentence is listed with the reason, and no other is."""
    without = {title for title, names in page.by_section().items() if not names}
    assert without == page.NOT_MODELLED.keys()
    assert all(page.NOT_MODELLED.values())


def test_each_rule_stands_in_a_section(page):
    """Each rule of the model is on the page, in a section of the rules."""
    shown = [name for names in page.by_section().values() for name in names]
    assert set(shown) == RULES.keys()
    lines = "\n".join(page.sections())
    assert [name for name in RULES if f"| `{name}` | " not in lines] == []


def test_each_rule_has_a_place_in_the_model(page):
    """Each rule is named by a function of the model or of a step."""
    assert page.places().keys() == RULES.keys()
