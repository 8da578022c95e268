"""The page of the architecture: its map has every module, and what it points to exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()


def test_the_map_is_that_of_the_sources():
    """The page lists each module under its floor with the first line that the module has."""
    command = [sys.executable, "-m", "docs.map", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_map_is_complete():
    """No module of a package is missing from the map."""
    packages = [*ROOT.glob("mqplug*/"), *ROOT.glob("plugins/*/mqplug_*/"), *ROOT.glob("contrib/*/*mqplug*/")]
    modules = [path for package in packages for path in package.rglob("*.py") if (path.parent / "__init__.py").exists()]
    rows = PAGE.count("\n| `") + PAGE.count("\n**`") - PAGE.partition("<!-- The map")[0].count("\n| `")
    assert rows == len(modules)


def test_what_it_points_to_exists():
    """Each path that the page names is there, and each file that it names alone lies beside the path before it."""
    named = re.findall(r"`([\w./-]*/[\w./-]+|[\w-]+\.(?:py|toml|md))`", PAGE.partition("<!-- The map")[0])
    folder, missing = ROOT, []
    for name in named:
        found = [path for path in (ROOT / name, folder / name) if path.exists()]
        missing += [] if found else [name]
        folder = (ROOT / name).parent if "/" in name else folder
    assert len(named) > 10
    assert missing == []
