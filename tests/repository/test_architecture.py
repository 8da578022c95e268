"""The architecture page: its map has every module, and the files that it names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()


def test_the_map_is_complete():
    """The map lists each module of each package once."""
    packages = [*ROOT.glob("mqplug*/"), *ROOT.glob("plugins/*/mqplug_*/"), *ROOT.glob("contrib/*/*mqplug*/")]
    modules = [path for package in packages for path in package.rglob("*.py") if (path.parent / "__init__.py").exists()]
    command = [sys.executable, "docs/module_map.py"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown.count("\n| `") + shown.count("\n**`") == len(modules)


def test_what_it_points_to_exists():
    """Each path on the page exists, and so does each bare file name, beside the path before it."""
    named = re.findall(r"`([\w./-]*/[\w./-]+|[\w-]+\.(?:py|toml|md))`", PAGE)
    folder, missing = ROOT, []
    for name in named:
        found = [path for path in (ROOT / name, folder / name) if path.exists()]
        missing += [] if found else [name]
        folder = (ROOT / name).parent if "/" in name else folder
    assert len(named) > 10
    assert missing == []
