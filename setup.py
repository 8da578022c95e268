"""The README as an index shows it: no files lie beside it there, so each link to one says how to read the page instead.

All else is in setup.cfg.
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
OF_THE_ROOT = ("changelog", "compatibility")  # pages that are shipped from there
LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)(?:[\w-]+/)*([\w-]+)(?:\.md)?(?:#[\w-]+)?\)")


def readme() -> str:
    """Return the README without relative links."""
    return LINK.sub(_without_target, (ROOT / "README.md").read_text(encoding="utf-8"))


def _without_target(link: re.Match[str]) -> str:
    page = link[2].lower()
    if page not in OF_THE_ROOT and not (ROOT / "docs" / f"{page}.md").exists():
        return link[1]
    return f"{link[1]} (`mqplug docs {page}`)"


setup(long_description=readme(), long_description_content_type="text/markdown")
