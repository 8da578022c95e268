"""The pages for operators are up to date with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mqplug
from mqplug_cli import run_command

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "operations-errors.md"


def sections() -> dict[str, str]:
    """Return the text below each heading that names an error."""
    parts = re.split(r"^#+ (.+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {title.strip("`"): text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True) if "`" in title}


def test_each_error_says_what_an_operator_does():
    """Each error that mqplug exports, and no other, has a section for operators."""
    public = {name: getattr(mqplug, name) for name in mqplug.__all__}
    errors = {name for name, kind in public.items() if isinstance(kind, type) and issubclass(kind, mqplug.Error)}
    found = sections()
    assert set(found) == errors
    assert [name for name, text in found.items() if not text] == []


@pytest.mark.parametrize("page", ["deploy.md", "operations-errors.md"])
def test_commands_of_the_pages_exist(page: str, capsys: pytest.CaptureFixture[str]):
    """Each verb on a page for operators exists in the command line."""
    named = set(re.findall(r"(?:[`/]|^\$ )mqplug ([a-z][a-z-]+)", (DOCS / page).read_text(), re.MULTILINE))
    assert "doctor" in named
    assert run_command(["--help"]) == 0
    listed = set(re.findall(r"(?m)^  ([a-z][a-z-]+) ", capsys.readouterr().out))
    assert named - {"docs"} <= {*listed, "rocksmq"}
