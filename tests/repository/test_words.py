"""The pages are written in plain English: habits of translated sentences stay out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/mqplug-*/*.md"), *ROOT.glob("*/mqplug-*/docs/*.md")}
)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HABITS = {
    r"(is|are) to be": "must be",
    r"for ever": "forever",
    r"meanwhile|amid|asunder|in the midst": "during, while, until then",
    r"(go|goes|went|going) on": "continue",
    r"(is|are|be|was) told|tells": "reports, documents, detects",
    r"[Ww]hoever": "a caller that, a program that",
    r"[Ll]et no": "prevent, cap, refuse",
    r"what is no": "a value that is not",
    r"[Ss]ay \w+=": "Set x=",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_plain_english(page: Path):
    """No page has a phrase of the list; the failure names what to write instead."""
    text = CODE.sub("", page.read_text())
    found = {match[0]: instead for habit, instead in HABITS.items() for match in re.finditer(rf"\b({habit})\b", text)}
    assert found == {}
