"""Fixtures for several test modules."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

Wait = Callable[[Callable[[], bool]], None]
Owner = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def eventually() -> Wait:
    """Return a function that waits until a condition holds, and fails after a minute."""

    def wait(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, "it did not happen within 60 s"
            time.sleep(0.02)

    return wait


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Return a function that checks whether a process has ended. A zombie has."""

    def ended(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return ended


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this pytest run from the processes that the test starts."""
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The folder in which owners create their temporary directories."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def owner(scratch: Path) -> Iterator[Owner]:
    """Return a function that starts a Python program, with its temporary files in `scratch`."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "TMPDIR": str(scratch)}
        process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
