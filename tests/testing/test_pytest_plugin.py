"""The pytest plugin, which every pytest run with mqplug installed loads: unused, it costs nothing."""

from __future__ import annotations

import pytest

from mqplug_pytest import SHARED_DIRECTORY_VARIABLE

pytest_plugins = "pytester"

NOTE_MODULES = """
import os, sys
from pathlib import Path

def pytest_sessionfinish():  # a worker may be killed right after it
    Path(f"modules-{os.getpid()}").write_text("\\n".join(sys.modules))

def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        pytest_sessionfinish()
"""
SHARES = f"""
import os
from pathlib import Path

def test_it(): assert Path(os.environ[{SHARED_DIRECTORY_VARIABLE!r}]).is_dir()
"""


@pytest.fixture(autouse=True)
def outside(monkeypatch):
    """Let the runs believe that they are no part of this one."""
    for name in ("PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(SHARED_DIRECTORY_VARIABLE, raising=False)


@pytest.fixture
def loaded(pytester):
    """Return the modules that a run of one empty test has loaded at its end, in all its processes."""
    pytester.makeconftest(NOTE_MODULES)
    pytester.makepyfile("def test_nothing(): pass")

    def run(*options: str) -> set[str]:
        assert pytester.runpytest_subprocess("-p", "no:mqplug_devbrokers", *options).ret == 0
        files = list(pytester.path.glob("modules-*"))
        modules = {name for file in files for name in file.read_text().splitlines()}
        for file in files:
            file.unlink()
        return modules

    return run


@pytest.mark.parametrize("option", ["-q", "-n1", "--help"])
def test_a_run_without_cases_loads_the_plugin_alone(loaded, option):
    """Neither mqplug nor its requirements are imported for other tests, or to show the options."""
    assert loaded(option) - loaded(option, "-p", "no:mqplug") == {"mqplug_pytest"}


def test_the_options_are_shown(pytester):
    """The help lists the options of the contract."""
    shown = pytester.runpytest_subprocess("--help")
    shown.stdout.fnmatch_lines(["mqplug's contract:", "*--mqplug-profile={quick,full,soak}*"])


def test_workers_share_a_directory(pytester):
    """The plugin sets in each worker the variable with their common directory."""
    pytester.makepyfile(SHARES)
    pytester.runpytest_subprocess("-n1").assert_outcomes(passed=1)
