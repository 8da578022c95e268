"""The supervisor of one broker: a small process that outlives a killed owner just long enough to clean up.

The owner starts this file as a script and talks to it over a pipe, with a JSON line for each request and answer. When
the pipe ends or the owner dies for any reason, the broker is killed and its directory deleted. Only the standard
library is imported, so that it starts fast.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


class Supervisor:
    """At most one broker process, a child of this process, and the requests to it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.broker: subprocess.Popen[bytes] | None = None

    def answer(self, request: dict[str, Any]) -> Any:
        """Handle a request of the owner, and return the result or the error."""
        match request:
            case {"start": command, "log": log}:
                try:
                    return self.start(command, log)
                except (OSError, subprocess.SubprocessError) as error:
                    return {"error": str(error)}
            case {"signal": number}:
                return self.signal(number)
            case {"poll": _}:
                return None if self.broker is None else self.broker.poll()
        raise ValueError(request)

    def start(self, command: list[str], log: str) -> int:
        """Start the broker in its directory, and append both of its output streams to the log."""
        with Path(log).open("ab") as output:
            self.broker = subprocess.Popen(  # noqa: S603  the command is the owner's
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.directory,
                preexec_fn=die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509  there is one thread
            )  # fmt: skip
        return self.broker.pid

    def signal(self, number: int) -> bool:
        """Send a signal to the broker, never to another process that has got its id."""
        if self.broker is None or self.broker.poll() is not None:
            return False
        self.broker.send_signal(number)
        if number == signal.SIGSTOP and sys.platform == "linux":
            # One thread after another handles the signal: until all have stopped, some may answer.
            os.waitid(os.P_PID, self.broker.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return True

    def kill(self) -> None:
        """Kill the broker, even if it is paused."""
        if self.signal(signal.SIGKILL) and self.broker is not None:
            self.broker.wait()


def die_with_parent() -> None:
    """Ask the kernel to kill the broker when this process is killed itself."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def serve_owner(supervisor: Supervisor, owner: int) -> None:
    """Answer requests until the owner closes the pipe or dies."""
    requests = open(0, "rb", buffering=0)  # noqa: SIM115  select does not see requests in a buffer
    watched: list[Any] = [requests]
    if sys.platform == "linux":
        # A child that the owner forked may hold the pipe open, which then does not end with the owner.
        watched.append(os.pidfd_open(owner))
    while True:
        ready, _, _ = select.select(watched, [], [])
        line = requests.readline() if ready == [requests] else b""
        if not line:
            return
        number, request = json.loads(line)
        send_reply(number, supervisor.answer(request))


def send_reply(number: int, answer: Any) -> None:
    """Send the answer to the request with this number."""
    sys.stdout.write(json.dumps([number, answer]) + "\n")
    sys.stdout.flush()


def main(name: str, directory: str) -> None:
    """Run brokers in `directory`, or in a new one that is deleted at the end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Only the owner's end ends this process. Not SIG_IGN: the broker would inherit it, and must obey SIGTERM.
        signal.signal(number, lambda *_: None)
    owner = os.getppid()
    supervisor = Supervisor(directory or tempfile.mkdtemp(prefix=f"mqplug-{name}-"))
    try:
        send_reply(0, supervisor.directory)
        serve_owner(supervisor, owner)
    except (BrokenPipeError, ProcessLookupError):
        pass  # the owner ended before it read the answer
    finally:
        supervisor.kill()
        if not directory:
            shutil.rmtree(supervisor.directory, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
