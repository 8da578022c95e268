"""Run a command, print what it took of the processor, and fail if that is far beyond its budget.

Usage: python .ci/budget.py NAME COMMAND .... `.ci/budget.toml` has the seconds of NAME. They hold for the tests of the
day (`-m "not night"`), and for whatever has no such choice; a quarter more is allowed. All processes count that the
command started, servers too. A slower machine gets more: a loop of Python is timed against the one of the file.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path

BUDGET = tomllib.loads(Path(__file__).with_name("budget.toml").read_text())
ALLOWED = 1.25
PR_SET_CHILD_SUBREAPER = 36
ORPHANS_END_S = 30.0  # for servers that end when the command has


def main(name: str, command: list[str]) -> int:
    """Run the command, and return its status, or 1 if it took too much."""
    slower = max(1.0, _loop() / BUDGET["loop"])
    began = time.monotonic()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # so that what servers took is counted here, too
    status = subprocess.run(command, check=False).returncode
    seconds = time.monotonic() - began
    _wait_for_orphans()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime
    budget = BUDGET["seconds"].get(name, 0.0) * slower
    limited = budget and ("pytest" not in command or any("not night" in word for word in command))
    words = f" of {budget:.0f} in the budget" if limited else ""
    print(f"{name}: {processor:.0f} s of processor{words}, {seconds:.0f} s")
    if status == 0 and limited and processor > ALLOWED * budget:
        print(
            f"{name}: over its budget by more than a quarter: make its tests cheaper, mark some with night, or change "
            ".ci/budget.toml for a reason"
        )
        return 1
    return status


def _loop() -> float:
    """Return the processor time of a loop: the shortest of some."""
    taken = []
    for _ in range(5):
        began = time.process_time()
        sum(number * number for number in range(300_000))
        taken.append(time.process_time() - began)
    return min(taken)


def _wait_for_orphans() -> None:
    end = time.monotonic() + ORPHANS_END_S
    with suppress(ChildProcessError):  # there is none left
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
