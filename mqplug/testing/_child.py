"""Another process that uses the backend, until it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from threading import Thread
from typing import Self

import pytest

from mqplug.testing._server_process import wait_until_stopped


class Child:
    """Runs a program in a Python of its own and collects what it prints; the end of the block kills it."""

    def __init__(self, program: str, *arguments: str) -> None:
        self.lines: list[str] = []
        command = [sys.executable, "-u", "-c", program, *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self._reader = Thread(target=self._collect, daemon=True)

    def _collect(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # the last one may be cut off
                self.lines.append(line.rstrip("\n"))

    def wait_for(self, count: int, within: float) -> None:
        """Wait until it has printed so many lines."""
        end = time.monotonic() + within
        while len(self.lines) < count:
            if self._process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"the child process printed {len(self.lines)} lines of {count}: {self.lines[-5:]}")
            time.sleep(0.01)

    def wait_until_stopped(self) -> None:
        """Wait until it stands still: it stops itself."""
        wait_until_stopped(self._process.pid)

    def go_on(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as ``kill -9`` does; afterwards ``lines`` has all that it said. May be called twice."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
