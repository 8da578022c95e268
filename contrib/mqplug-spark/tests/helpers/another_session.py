"""Runs a module of tests again in another process, because a process has only one kind of Spark session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1]


def run_again(module: str, scratch: Path, *arguments: str, **variables: str) -> None:
    """Run the tests of a module under ``tests``, with these variables set. Fail with its output if one fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--tb=short"]
    ran = subprocess.run(
        [*command, f"--basetemp={scratch / 'again'}", FOLDER / module, *arguments],
        check=False,
        env={**os.environ, **variables},
        cwd=FOLDER.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout
    assert "skipped" not in ran.stdout.splitlines()[-1], ran.stdout
