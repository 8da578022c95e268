"""Pages, docstrings, comments and messages are plain English, without habits of translated sentences."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/mqplug-*/*.md"), *ROOT.glob("*/mqplug-*/docs/*.md")}
)
PACKAGES = sorted(path.parent for path in (*ROOT.glob("mqplug/__init__.py"), *ROOT.glob("*/mqplug-*/*/__init__.py")))
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HABITS = {
    r"(is|are) to be": "must be",
    r"for ever": "forever",
    r"meanwhile|amid|asunder|in the midst": "during, while, until then",
    r"(go|goes|went|going) on": "continue",
    r"(is|are|be|was|were) told|tells|telling": "reports, documents, detects",
    r"[Ww]hoever": "a caller that, a program that",
    r"[Ll]et no": "prevent, cap, refuse",
    r"what is no": "a value that is not",
    r"[Ss]ay \w+=": "Set x=",
}
HABITS_OF_CODE = {
    r"behind": "after, later, past",
    r"native (client|consumer|producer|reader|library|part|extension|source|sender|admin)": "client, or compiled",
}


def habits(text: str, listed: dict[str, str]) -> dict[str, str]:
    """Return the listed phrases that a text contains, and what to write instead."""
    return {match[0]: instead for habit, instead in listed.items() for match in re.finditer(rf"\b({habit})\b", text)}


def sentences(file: Path) -> Iterator[str]:
    """Return the comments and strings of a file, except those of one word, which are names."""
    for token in tokenize.generate_tokens(io.StringIO(file.read_text()).readline):
        if token.type in {tokenize.STRING, tokenize.COMMENT} and " " in token.string:
            yield CODE.sub("", token.string)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_plain_english(page: Path):
    """No page has a phrase of the list; the failure names what to write instead."""
    assert habits(CODE.sub("", page.read_text()), HABITS) == {}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_code_is_plain_english(package: Path):
    """No docstring, comment or message of a package has a phrase of the list."""
    listed = HABITS | HABITS_OF_CODE
    found = {
        str(file.relative_to(ROOT)): phrases
        for file in sorted(package.rglob("*.py"))
        if (phrases := habits("\n".join(sentences(file)), listed))
    }
    assert found == {}
