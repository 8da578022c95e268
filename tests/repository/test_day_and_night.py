"""Day and night together run every test: tests left out by day are in a part of the night."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(
    str(path.relative_to(ROOT)) for pattern in ("tests", "*/tests", "*/*/tests") for path in ROOT.glob(pattern)
)
PARTS = runpy.run_path(str(ROOT / ".ci/night"), run_name="night")["PARTS"]


def places(lines: Iterator[str] | list[str], mark: str) -> set[str]:
    """Return the paths that commands with this choice of marks run."""
    chosen = [line.partition(mark)[2] for line in lines if mark in line]
    return {word.strip("{}") for line in chosen for word in line.split() if (ROOT / word.strip("{}")).exists()}


def covered(folder: str, where: set[str]) -> bool:
    """Return whether a folder, or one that contains it, is among these."""
    return not where.isdisjoint({folder, *map(str, Path(folder).parents)})


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_of_tests_runs_by_day_and_whole_at_night(folder: str):
    """Tox runs the day's tests of each folder, and a part of the night runs all of them."""
    commands = re.sub(r"\\\n\s*", "", (ROOT / "tox.ini").read_text()).splitlines()
    assert covered(folder, places(commands, '-m "not night" '))
    assert covered(folder, places([step for _, steps in PARTS.values() for step in steps], '-m "" '))


def test_contributing_lists_the_parts():
    """Each part of the night has its row."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)[-len(PARTS) :] == list(PARTS)
    assert [part for part, (words, _) in PARTS.items() if f"| `{part}` | {words} |" not in page] == []


def test_no_test_asks_for_the_profile_of_the_contract():
    """Only marks decide what runs at night; ``MQPLUG_PROFILE`` is for the contract's cases."""
    asking = [
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if "MQPLUG_PROFILE" in path.read_text() and path.name not in {Path(__file__).name, "test_kit_usage.py"}
    ]
    assert asking == []


NOTES_ITS_WORKER = """
import os, pathlib, pytest

@pytest.fixture
def kafka_cluster():
    pathlib.Path(os.environ["PYTEST_XDIST_WORKER"]).touch()

@pytest.mark.parametrize("number", range(6))
def test_it(kafka_cluster, number):
    pass
"""


def test_one_worker_runs_what_uses_a_server_of_its_own(tmp_path: Path):
    """Tests with the fixture of such a server are a group of pytest-xdist, with any version of pytest."""
    (tmp_path / "test_it.py").write_text(NOTES_ITS_WORKER)
    words = ["-p", "xdist", "-p", "day_and_night", "-n", "2", "--dist", "loadgroup", "-c", "/dev/null"]
    of_the_run = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    environment = {**of_the_run, "PYTHONPATH": str(ROOT / "tests/helpers"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", *words, "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert len(list(tmp_path.glob("gw*"))) == 1
