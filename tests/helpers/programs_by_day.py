"""Random programs in a test: a short run over a backend, with other programs for each commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mqplug_testing import Harness, check_programs

WITHOUT_GIT = 20260


def check_some_programs(harness: Harness, url: str, seconds: float) -> None:
    """Run random programs for this long. A failure shows the shrunk program, and how to run it over this URL."""
    seed = seed_of_commit()
    print(f"random programs with --seed {seed}")  # noqa: T201  shown if the test fails
    found = check_programs(harness, seconds, seed)
    print(found)  # noqa: T201
    assert found.failure is None, found.failure.program(url)
    assert found.programs > 0


def seed_of_commit(root: Path = Path(__file__).parents[2]) -> int:
    """Return a seed that each commit changes; always the same one without git."""
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return WITHOUT_GIT
    return int(commit.stdout[:7], 16)
