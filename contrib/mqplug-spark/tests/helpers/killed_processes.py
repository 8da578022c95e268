"""Programs that tests kill, and their child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

DEADLINE_S = 600  # for the next step of a program, on a busy machine


class Program:
    """A Python program that runs until it ends or is killed, and can be restarted."""

    def __init__(self, folder: Path, path: Path, *arguments: str) -> None:
        self._errors = folder / f"{path.stem}.err"
        self._command = [sys.executable, str(path), *arguments]
        self.start()

    def start(self) -> None:
        """Start or restart the program."""
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=errors, text=True,
                env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )  # fmt: skip
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, args=(self.process, self.lines), daemon=True)
        self._reading.start()

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: list[str]) -> None:
        assert process.stdout is not None
        with process.stdout as printed:
            lines.extend(line.strip() for line in printed)

    def wait_for(self, beginning: str) -> None:
        """Wait for another line that begins like this. Fail if the program ends first."""
        since, end = len(self.lines), time.monotonic() + DEADLINE_S
        while not any(line.startswith(beginning) for line in self.lines[since:]):
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.errors()}"
            assert time.monotonic() < end, f"no {beginning!r} after {self.lines[-3:]}: {self.errors()}"
            time.sleep(0.02)

    def wait(self) -> int:
        """Wait for the end. Return the status, which is negative if the program was killed."""
        status = self.process.wait(DEADLINE_S)
        self._reading.join(DEADLINE_S)
        return status

    def kill(self) -> None:
        """Kill the program and its child processes."""
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            kill(pid)
        self.wait()

    def errors(self) -> str:
        """Return the end of the error output."""
        return self._errors.read_text(errors="replace")[-4000:]


def kill(pid: int) -> None:
    """Kill a process if it still exists."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the child processes of a process, and all of their children."""
    parents = dict(_parents())
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def command_line(pid: int) -> str:
    """Return the command line of a process; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _parents() -> Iterator[tuple[int, int]]:
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state = each.read_text(errors="replace")
            yield int(each.parent.name), int(state.rpartition(")")[2].split()[1])
