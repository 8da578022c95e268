"""Processes that a case needs: a child until it is killed, calls in a fork, and the memory of this process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import Final, Self

import pytest

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

    def resume(self) -> None:
        """Resume it."""
        self._process.send_signal(signal.SIGCONT)

    def _state(self) -> str:
        code = self._process.poll()
        return "is still running" if code is None else f"ended with code {code}"

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


def in_child(calls: Iterable[Callable[[], object]], within: float) -> list[str]:
    """Fork, and make these calls in the child. Return the type name of the error that each raised, or ""."""
    if not hasattr(os, "fork"):
        pytest.skip("this platform has no fork")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork with threads
        child = os.fork()
    if not child:
        _make(calls, writing)
    os.close(writing)
    try:
        return _read(reading, within).decode().split("\n")
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _make(calls: Iterable[Callable[[], object]], writing: int) -> None:
    """Make the calls in the child, and end it: it has none of the parent's resources to clean up."""
    raised = []
    try:
        for call in calls:
            try:
                call()
                raised.append("")
            except BaseException as error:  # noqa: BLE001 - reported to the parent
                raised.append(type(error).__name__)
        os.write(writing, "\n".join(raised).encode())
    finally:
        os._exit(0)


def _read(reading: int, within: float) -> bytes:
    """Return the child's report, which it writes at once, or a note that it hangs."""
    ready, _, _ = select.select([reading], [], [], within)
    return os.read(reading, 65536) if ready else b"the child hangs"


MIB: Final = 2**20

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the bytes of this process that are in memory, including those of the client libraries."""
    if not _STATM.exists():
        pytest.skip("the memory of a process can be read on Linux only")
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
