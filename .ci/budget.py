"""Run a command, print its processor time, and fail if that is far beyond its budget.

Usage: python .ci/budget.py NAME COMMAND .... `.ci/budget.toml` has the seconds of NAME. They apply to the tests of the
day (`-m "not night"`) and to commands without such a choice; a quarter more is allowed. All processes that the command
starts count, servers too. A slower machine gets more: a Python loop is timed and compared with the time in the file.
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
ORPHANS_END_S = 30.0  # for servers that end after the command


def main(name: str, command: list[str]) -> int:
    """Run the command, and return its status, or 1 if it exceeds the budget."""
    slower = max(1.0, _loop() / BUDGET["loop"])
    began = time.monotonic()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # so that servers count here too
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
            f"{name}: over its budget by more than a quarter; make its tests cheaper, mark some with night, or raise "
            "the budget in .ci/budget.toml for a reason"
        )
        return 1
    return status


def _loop() -> float:
    """Return the processor time of a loop: the shortest of five runs."""
    taken = []
    for _ in range(5):
        began = time.process_time()
        sum(number * number for number in range(300_000))
        taken.append(time.process_time() - began)
    return min(taken)


def _wait_for_orphans() -> None:
    end = time.monotonic() + ORPHANS_END_S
    with suppress(ChildProcessError):  # none are left
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
