"""The picture of ``mqplug top`` in the docs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="mqplug[top] is not installed")

ROOT = Path(__file__).parents[2]


def test_the_picture_shows_what_top_shows():
    """The texts in the picture of the docs are those that top draws now; ``python -m docs.top_picture`` redraws it."""
    command = [sys.executable, "-m", "docs.top_picture", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
