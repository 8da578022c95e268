"""The page of a session: its commands print what it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)  # 18 processes, one after the other
def test_the_session_prints_what_the_page_shows():
    """The commands of the page, run in order on a RocksMQ store, print the output below them."""
    command = [sys.executable, "-m", "docs.session", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")
