"""Builds the README for package indexes: a relative link would be broken there, so it names a command instead.

All other metadata is in setup.cfg.
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
ROOT_PAGES = ("changelog", "compatibility")  # shipped from the root of the repository
RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)(?:[\w-]+/)*([\w-]+)(?:\.md)?(?:#[\w-]+)?\)")


def readme() -> str:
    """Return the README with each relative link replaced."""
    return RELATIVE_LINK.sub(_name_command, (ROOT / "README.md").read_text(encoding="utf-8"))


def _name_command(link: re.Match[str]) -> str:
    page = link[2].lower()
    if page not in ROOT_PAGES and not (ROOT / "docs" / f"{page}.md").exists():
        return link[1]
    return f"{link[1]} (`mqplug docs {page}`)"


setup(long_description=readme(), long_description_content_type="text/markdown")
