"""The pages for operators keep up with the code."""

from __future__ import annotations

import re
from pathlib import Path

import mqplug

PAGE = Path(__file__).parents[2] / "docs/operations-errors.md"


def sections() -> dict[str, str]:
    """The text below each heading that names an error."""
    parts = re.split(r"^#+ (.+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {title.strip("`"): text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True) if "`" in title}


def test_each_error_says_what_an_operator_does():
    """Each error that mqplug exports, and no other, has a section for operators."""
    public = {name: getattr(mqplug, name) for name in mqplug.__all__}
    errors = {name for name, kind in public.items() if isinstance(kind, type) and issubclass(kind, mqplug.Error)}
    found = sections()
    assert set(found) == errors
    assert [name for name, text in found.items() if not text] == []
