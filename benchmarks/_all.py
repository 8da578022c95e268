"""``python -m benchmarks all``: the suites one after the other, each in its own process, within a limit of time."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks._suites import SUITES, Suite

MINUTES, ROUNDS = 25.0, 3
HANGS_AFTER_S, STOP_S = 1800.0, 60.0
_TOP = Path(__file__).parents[1]

CommandOf = Callable[[Suite, float], Sequence[str]]
"""Returns the command that runs a suite within a number of minutes."""


def suites_of_all(*, quick: bool) -> Iterator[Suite]:
    """Return the suites that ``all`` runs. Those that take many minutes or much disk are only run briefly."""
    for suite in SUITES.values():
        if not suite.minutes and not quick:
            continue
        if suite.needs and not shutil.which(suite.needs):
            print(f"{suite.name} is omitted: {suite.needs} is not installed")
        else:
            yield suite


def run_all(
    suites: Sequence[Suite], minutes: float, command_of: CommandOf, hangs_after_s: float = HANGS_AFTER_S
) -> dict[str, str]:
    """Run each suite, also after one that failed. Return how each that failed ended.

    Each suite gets its part of the minutes that are left, so what one does not need, later ones may use.
    """
    began, failed, took = time.monotonic(), {}, []
    for position, suite in enumerate(suites):
        begin = time.monotonic()
        part = suite.minutes / (sum(each.minutes for each in suites[position:]) or 1)
        print(f"\n=== {suite.name} ===", flush=True)
        if failure := _failure(command_of(suite, (minutes - (begin - began) / 60) * part), hangs_after_s):
            failed[suite.name] = failure
        took.append(f"{suite.name}: {failed.get(suite.name, 'done')}, {time.monotonic() - begin:.0f} s")
    print("", *took, sep="\n")
    return failed


def _failure(command: Sequence[str], hangs_after_s: float) -> str:
    """Run a command, and return how it failed; empty if it did not."""
    with subprocess.Popen(command, cwd=_TOP) as process:
        try:
            code = process.wait(hangs_after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it stops its servers, as after Ctrl-C
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
            return f"stopped after {hangs_after_s:g} s"
    return f"failed with exit code {code}" if code else ""
