"""The pytest fixtures: one server for a whole run, a skip or failure without Java, and no imports where unused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("outside")
TEST = "def test_it(kafka_server): raise AssertionError('never reached')\n"


def run_without_java(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on one test that needs a broker, as on a machine without Java."""
    (folder / "test_it.py").write_text(TEST)
    names = ("PATH", "JAVA_HOME", "CI")
    clean = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-m", "pytest", "-rsE", "-p", "no:cacheprovider", f"--rootdir={folder}", "test_it.py"]
    return subprocess.run(
        command, cwd=folder, env={**clean, **environment, "PATH": ""},
        stdout=subprocess.PIPE, text=True, check=False, timeout=100,
    )  # fmt: skip


def test_without_java_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    """Outside CI, tests that need Java are skipped without it, and the reason is shown."""
    done = run_without_java(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
    assert "no java was found" in done.stdout


@pytest.mark.parametrize("value", ["true", "True"])
def test_without_java_tests_fail_in_ci(tmp_path: Path, value: str) -> None:
    """In CI, tests that need Java fail without it."""
    done = run_without_java(tmp_path, CI=value)
    assert done.returncode == 1, done.stdout
    assert "MissingTool: no java was found" in done.stdout


@pytest.mark.night
def test_one_server_serves_the_whole_run(tmp_path: Path) -> None:
    """Two tests get the same server, whose directory is deleted after the run."""
    (tmp_path / "test_it.py").write_text(
        "from pathlib import Path\n"
        "def test_one(kafka_server): Path('one').write_text(repr(kafka_server))\n"
        "def test_two(kafka_server): Path('two').write_text(repr(kafka_server))\n"
        "def test_dir(kafka_server): Path('dir').write_text(str(kafka_server.directory))\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text()
    assert not Path((tmp_path / "dir").read_text()).exists()


NOTE_MODULES = """
import sys
from pathlib import Path

def pytest_unconfigure():
    Path("modules").write_text("\\n".join(sys.modules))
"""


def loaded(folder: Path, *options: str) -> set[str]:
    """Return the modules that are loaded at the end of a run of one empty test."""
    (folder / "conftest.py").write_text(NOTE_MODULES)
    (folder / "test_it.py").write_text("def test_nothing(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:mqplug", f"--rootdir={folder}"]
    subprocess.run([*command, *options], cwd=folder, stdout=subprocess.PIPE, check=True, timeout=100)
    return set((folder / "modules").read_text().splitlines())


def test_a_run_that_needs_no_server_loads_the_fixtures_alone(tmp_path: Path) -> None:
    """A run that needs no server loads only the fixtures' modules, not the servers or mqplug."""
    added = loaded(tmp_path) - loaded(tmp_path, "-p", "no:mqplug_devbrokers")
    assert added == {"mqplug_devbrokers", "mqplug_devbrokers.pytest_plugin"}
