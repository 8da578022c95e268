"""The page of rules and the cases of the contract are one list, and agree on what each case needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from mqplug_testing import CASES, Case

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contract-rules.md").read_text()
PARAGRAPH = re.compile(r"^(\*\*([A-Z]+-\d+)\*\* · .+)\\\n(.+(?:\n.+)*)", re.MULTILINE)
PARAGRAPHS = PARAGRAPH.findall(PAGE)  # head, id, text
HEADS = {rule: head for head, rule, _ in PARAGRAPHS}
TEXTS = {rule: text for _, rule, text in PARAGRAPHS}


def rule_of(case: Case) -> str:
    """Return the id without the suffix of a mode."""
    return "-".join(case.id.split("-")[:2])


def cases_of_rules() -> dict[str, list[Case]]:
    """Return the cases of each rule, one for each mode."""
    return {rule: list(cases) for rule, cases in groupby(sorted(CASES, key=lambda case: case.id), rule_of)}


RULES = cases_of_rules()


def head(rule: str, cases: Sequence[Case]) -> str:
    """Return how the paragraph of a rule must begin."""
    if not cases:
        return f"**{rule}** · no call yet"
    first, *others = cases
    parts = [first.level, *asked(first)]
    for other in others:
        parts.append(f"in `{other.id.rpartition('-')[2]}`: {', '.join(asked(other))}")
    return " · ".join([f"**{rule}**", *parts])


def asked(case: Case) -> list[str]:
    """Return what a case needs besides a client."""
    needs = [f"needs {quoted(case.needs)}"] if case.needs else []
    return needs + ([f"hook {quoted(case.hooks)}"] if case.hooks else [])


def quoted(names: Iterable[str]) -> str:
    """Format names as code."""
    return ", ".join(f"`{name}`" for name in names)


@pytest.mark.parametrize("rule", RULES)
def test_each_case_has_its_paragraph(rule):
    """The rule of each case is on the page, with what the case needs and asks of the harness."""
    assert HEADS.get(rule) == head(rule, RULES[rule])


def test_what_has_no_case_is_said_to_be_absent():
    """A rule without a case is marked as not part of this version."""
    without_case = {rule for rule in HEADS if not rule.startswith("KIT-")} - set(RULES)
    assert without_case
    for rule in without_case:
        assert HEADS[rule] == head(rule, [])
        assert TEXTS[rule].startswith("Not part of this version:")


def test_what_the_kit_promises_of_itself_is_tested():
    """Each promise of the kit about itself is named by a test that checks it."""
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    promised = sorted(rule for rule in HEADS if rule.startswith("KIT-"))
    assert promised == [f"KIT-{number:02}" for number in range(1, len(promised) + 1)]
    assert [rule for rule in promised if rule not in tests] == []


def test_each_rule_stands_once_and_in_its_place():
    """Each rule is on the page once; they come by section, in the order of their numbers."""
    found = [rule for _, rule, _ in PARAGRAPHS]
    assert len(found) == len(set(found)) == len(re.findall(r"^\*\*[A-Z]+-\d+", PAGE, re.MULTILINE))
    sections = re.findall(r"^## ([A-Z]+):", PAGE, re.MULTILINE)
    assert len(sections) == len(set(sections))
    assert found == sorted(found, key=lambda rule: (sections.index(rule[: rule.index("-")]), rule))


def test_paragraphs_are_short():
    """A paragraph of a rule is short."""
    assert {rule: text for rule, text in TEXTS.items() if len(text) > 420 or not text.endswith(".")} == {}
