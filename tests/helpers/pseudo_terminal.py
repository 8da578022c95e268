"""A program in a pseudo-terminal: what it draws, the keys it gets, and the modes in which it leaves the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from types import TracebackType

SIZE = (30, 110)  # lines, columns
SHOWN = 4000  # characters


def _take_terminal() -> None:
    """Make standard input the session's terminal, so that the process is hung up when it closes."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class TerminalProgram:
    """A process on our terminal."""

    def __init__(self, command: list[str], *, controls: bool = True, **environment: str) -> None:
        self._ours, self._its = pty.openpty()
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        self.modes_before = termios.tcgetattr(self._its)
        clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            command, stdin=self._its, stdout=self._its, stderr=self._its, start_new_session=True,
            preexec_fn=_take_terminal if controls else None,  # noqa: PLW1509 - one system call
            env=clean | environment,
        )  # fmt: skip
        self.output = ""
        self._hung_up = False

    def __enter__(self) -> TerminalProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        if not self._hung_up:
            self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal, as closing a window or losing a connection does."""
        self._hung_up = True
        os.close(self._ours)
        os.close(self._its)

    @property
    def modes(self) -> list[object]:
        """Return the current modes of the terminal."""
        return termios.tcgetattr(self._its)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def read_until(self, *texts: str, seconds: float = 30) -> str:
        """Wait until one of these texts was written since the last call, and return the output until then."""
        deadline = time.monotonic() + seconds
        while not any(text in self.output for text in texts):
            assert time.monotonic() < deadline, f"{texts!r} is not in {self.output[-SHOWN:]!r}"
            assert self.process.poll() is None or self._readable(0), f"it ended: {self.output[-SHOWN:]!r}"
            if self._readable(0.1):
                self.output += os.read(self._ours, 65536).decode("utf-8", errors="replace")
        text = next(text for text in texts if text in self.output)
        seen, _, self.output = self.output.partition(text)
        return seen + text

    def wait(self, seconds: float = 20) -> int:
        """Wait for the program's end while reading its output. Return its exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on: {self.output[-SHOWN:]!r}"
            if self._readable(0.05):
                self.output += os.read(self._ours, 65536).decode("utf-8", errors="replace")
        while self._readable(0):
            self.output += os.read(self._ours, 65536).decode("utf-8", errors="replace")
        return self.process.returncode

    def _readable(self, seconds: float) -> bool:
        return bool(select.select([self._ours], [], [], seconds)[0])
