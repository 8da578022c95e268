"""A server in a process of its own, for a harness: started, stopped, killed and paused."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypedDict

from mqplug import ConnectError
from mqplug.spi import Deadline

# Below the ports of outgoing connections, one of which could otherwise take the port of a killed server.
FIRST_PORT: Final = 15000
LAST_PORT: Final = 31999
BLOCK_OF_A_PROCESS: Final = 50
_given_ports: Final[set[int]] = set()
STOP_S: Final = 30.0  # for a clean end; after it the server is killed
ORPHANS_EXIT_S: Final = 5.0  # for its children to exit after it; if orphans are not reaped, they never do
STATE_POLL_S: Final = 0.01  # pause between two checks whether it is ready, or gone
TAIL_LINES: Final = 25


class ServerHooks(TypedDict):
    """The hooks of a harness that a server provides."""

    restart: Callable[[], None]
    kill: Callable[[], None]
    start: Callable[[], None]
    pause: Callable[[], None]
    unpause: Callable[[], None]


class ServerProcess:
    """A program that is started as a server, and ended with the ``with`` block.

    It is ready when it listens at ``port``, and when its output contains the text ``says``, if these are given;
    ``start`` waits for that, up to ``timeout`` seconds. Its standard input is a pipe that closes when this process
    ends, for whatever reason: a server that exits at the end of its input is never left running. Signals go to all
    processes that it started, except those in a session of their own. ``output`` holds what it prints.
    """

    def __init__(
        self, command: Sequence[str | Path], *, port: int | None = None, says: str = "", timeout: float = 60.0,
        cwd: str | Path | None = None, env: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.command = [str(part) for part in command]
        self.port = port
        self._says = says
        self._timeout = timeout
        self._cwd = cwd
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object

    @property
    def pid(self) -> int:
        """The pid of the process that was started last."""
        return self._started().pid

    @property
    def running(self) -> bool:
        """Whether it is running, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """Everything it has printed since its last start."""
        file = self._output.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def hooks(self) -> ServerHooks:
        """Return the hooks for a harness: ``Harness(..., **server.hooks())``."""
        return {
            "restart": self.restart, "kill": self.kill, "start": self.start, "pause": self.pause,
            "unpause": self.unpause,
        }  # fmt: skip

    def start(self) -> None:
        """Start it, unless it is running, and wait until it is ready."""
        if self.running:
            return
        self._close_input()
        self._output.seek(0)
        self._output.truncate()
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=self._output, stderr=self._output, cwd=self._cwd, env=self._env,
            start_new_session=True,  # so that Ctrl-C reaches only the test run
        )  # fmt: skip
        deadline = Deadline(self._timeout)
        while not self._ready():
            if self._started().poll() is not None or deadline.expired:
                self._fail_to_start()
            time.sleep(STATE_POLL_S)

    def stop(self) -> None:
        """End it by SIGTERM, and wait until it is gone. It is killed if it does not obey."""
        if self.running:
            self.unpause()
            self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as ``kill -9`` does, paused or not, and wait until it is gone."""
        if self.running:
            self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it cleanly, and start it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop it without ending it (SIGSTOP), and return when all its threads have stopped."""
        self.send_signal(signal.SIGSTOP)
        wait_until_stopped(self.pid)

    def unpause(self) -> None:
        """Resume it (SIGCONT)."""
        self.send_signal(signal.SIGCONT)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is running."""
        if self.running:
            os.killpg(self.pid, number)

    def close(self) -> None:
        """Kill it, if it is running, and discard its output. Closing twice is harmless."""
        self.kill()
        self._close_input()
        self._output.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ConnectError("the server was not started", fix="Call start(), or use it in a with statement")
        return self._process

    def _ready(self) -> bool:
        return (self.port is None or listens(self.port)) and self._says in self.output and self.running

    def _fail_to_start(self) -> None:
        code = self._started().poll()
        what = f"was not ready within {self._timeout:g} s" if code is None else f"ended with status {code}"
        self.kill()
        tail = "\n".join(self.output.splitlines()[-TAIL_LINES:]) or "(nothing)"
        raise ConnectError(f"the server {what}; it printed:\n{tail}", fix=f"Run it by hand: {' '.join(self.command)}")

    def _end(self, number: signal.Signals) -> None:
        process = self._started()
        self.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.send_signal(signal.SIGKILL)
            process.wait()
        wait_until_gone(process.pid)
        self._close_input()

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def wait_until_gone(group: int) -> None:
    """Wait until a process group is empty: the children of an ended process exit a moment later."""
    deadline = Deadline(ORPHANS_EXIT_S)
    with suppress(ProcessLookupError):
        while not deadline.expired:
            os.killpg(group, 0)
            time.sleep(STATE_POLL_S)


def wait_until_stopped(child: int) -> None:
    """Wait until a child process that got SIGSTOP has stopped, or is gone."""
    # The threads stop one after another: until all have stopped, some may still answer.
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    else:  # pragma: no cover - macOS before Python 3.13
        os.waitpid(child, os.WUNTRACED)


def listens(port: int) -> bool:
    """Return whether a server on this machine accepts connections at this port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """Return a port of this machine that is free, and that no outgoing connection will take.

    A process is given each port once, so several ports for servers that have not started yet are different ones.
    """
    for port in _candidates():
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given_ports.add(port)
            return port
    raise OSError(f"no free port between {FIRST_PORT} and {LAST_PORT}: tried 200 at random")


def _candidates() -> Iterator[int]:
    """Yield ports of this process's own block, so that processes that choose at once get different ones, then any.

    The second half of the block is for servers of mqplug-devbrokers, which choose by themselves.
    """
    chance = random.SystemRandom()
    first = FIRST_PORT + os.getpid() * BLOCK_OF_A_PROCESS % (LAST_PORT + 1 - FIRST_PORT)
    yield from chance.sample(range(first, first + BLOCK_OF_A_PROCESS // 2), BLOCK_OF_A_PROCESS // 2)
    yield from chance.sample(range(FIRST_PORT, LAST_PORT + 1), 200)
