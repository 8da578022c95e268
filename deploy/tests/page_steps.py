"""The commands and files of docs/deploy.md."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/deploy.md"


def steps(name: str) -> list[str]:
    """Return the commands of the page under the comment with this name."""
    block = re.search(rf"<!-- steps: {name} -->\n *```console\n(.+?)\n *```", PAGE.read_text(), re.DOTALL)
    assert block, f"docs/deploy.md has no steps {name!r}"
    return [line.strip().removeprefix("$ ") for line in block[1].splitlines()]


def file_of_page(name: str) -> str:
    """Return the configuration file of the page under the comment with this name."""
    block = re.search(rf"<!-- file: {name} -->\n```toml\n(.+?)```", PAGE.read_text(), re.DOTALL)
    assert block, f"docs/deploy.md has no file {name!r}"
    return block[1]
