"""Run commands in parallel, print their output one after the other, and fail if one of them fails.

Usage: python .ci/side_by_side.py COMMAND ... , COMMAND ... where a separate comma divides the commands.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to completion."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def main(words: list[str]) -> int:
    """Run all, and return the worst status."""
    commands = [list(command) for comma, command in groupby(words, lambda word: word == ",") if not comma]
    worst = 0
    with ThreadPoolExecutor(len(commands)) as threads:
        for command, done in zip(commands, threads.map(run, commands), strict=True):
            print("$", *command, f"\n{done.stdout}", flush=True)
            worst = max(worst, abs(done.returncode))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
