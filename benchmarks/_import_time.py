"""The contests of startup: fresh interpreters that import mqplug, connect, and show the help of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from tempfile import TemporaryDirectory

from benchmarks._contests import Contest, Side, Work

MAX_IMPORT_CPU_US = 20_000.0
MAX_START_CPU_US = 150_000.0
HELP = "from mqplug_cli import main; main()"
VERBS = ("consume", "produce", "seek", "top", "verify")  # their help or work loads the most


def import_contests() -> list[Contest]:
    """Return the contests of fresh interpreters against an empty one, and one that imports what mqplug requires."""
    nothing = _fresh("nothing", "pass")
    required = _fresh("required", "import attrs, cattrs, pluggy")
    connect = _fresh("mqplug", "import mqplug; mqplug.connect('memory').close()")
    return [
        _start("import", _fresh("mqplug", "import mqplug"), [nothing, required], MAX_IMPORT_CPU_US),
        _start("import: a first connect", connect, [nothing, required], MAX_START_CPU_US),
        _start("import: mqplug --help", _fresh("mqplug", HELP, "--help"), [nothing, required], MAX_START_CPU_US),
        *(
            _start(f"import: mqplug {verb} --help", _fresh("mqplug", HELP, verb, "--help"), [nothing], MAX_START_CPU_US)
            for verb in VERBS
        ),
    ]


def _start(name: str, ours: Side, rivals: list[Side], most: float) -> Contest:
    return Contest(name=name, ours=ours, rivals=rivals, unit="start", max_added_cpu_us=most)


def _fresh(name: str, program: str, *arguments: str) -> Side:
    words = " ".join([f'python -c "{program}"', *arguments])
    return Side(name, f"{words}, a fresh interpreter", _process([sys.executable, "-c", program, *arguments]))


def _process(command: list[str]) -> Callable[[], AbstractContextManager[Work]]:
    """Return the preparation of one process. Its modules are compiled, as in an installation."""

    @contextmanager
    def prepare() -> Iterator[Work]:
        with TemporaryDirectory() as cache:
            env = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}

            def work() -> int:
                return subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL).returncode + 1

            work()
            yield work

    return prepare
