"""A Python process that uses the backend, until it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from tempfile import TemporaryFile
from threading import Thread
from typing import Final, Self

from mqplug.spi import Deadline
from mqplug_testing._case_tools.broken_promise import PromiseBroken, value_text
from mqplug_testing._harness.server_process import wait_until_stopped

STDERR_TAIL_CHARS: Final = 4000  # characters of a child's standard error that are shown


class ChildProcess:
    """A program in a Python process of its own, with the lines it printed. The end of the block kills it."""

    def __init__(self, program: str, *arguments: str) -> None:
        self.lines: list[str] = []
        command = [sys.executable, "-u", "-c", program, *arguments]
        self._errors = TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, stdin=subprocess.DEVNULL, text=True
        )
        self._reader = Thread(target=self._collect, daemon=True)

    def _collect(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # the last line may be truncated
                self.lines.append(line.rstrip("\n"))

    def wait_for(self, count: int, within: float) -> None:
        """Wait until it has printed `count` lines."""
        deadline = Deadline(within)
        while len(self.lines) < count:
            ended = self._process.poll() is not None
            if ended:
                self._reader.join(within)  # after it, all lines have been collected
            if len(self.lines) < count and (ended or deadline.expired):
                raise PromiseBroken(
                    f"a child process that {self._state()}\n{self._stderr_tail()}".rstrip(),
                    expected=f"{count} lines within {within:g} s",
                    seen=value_text(list(self.lines), len(self.lines)),
                )
            time.sleep(0.01)

    def wait_until_stopped(self) -> None:
        """Wait until it has stopped itself by SIGSTOP."""
        wait_until_stopped(self._process.pid)

    def go_on(self) -> None:
        """Resume it."""
        self._process.send_signal(signal.SIGCONT)

    def _state(self) -> str:
        code = self._process.poll()
        return "is still running" if code is None else f"ended with the code {code}"

    def _stderr_tail(self) -> str:
        """Return the end of its standard error, with its traceback if it has one."""
        self._errors.seek(0)
        return self._errors.read()[-STDERR_TAIL_CHARS:]

    def kill(self) -> None:
        """End it as ``kill -9`` does; afterwards ``lines`` is complete. May be called twice."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
