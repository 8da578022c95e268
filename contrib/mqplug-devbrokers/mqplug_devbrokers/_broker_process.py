"""A broker's process and directory, which end with the process that owns them, and its end of the supervisor's pipe.

Other processes may use the broker: they connect to it, and do not disturb it.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from mqplug_devbrokers import _supervisor_process
from mqplug_devbrokers._errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BufferedReader, BufferedWriter, FileIO

REPLY_TIMEOUT_S = 30.0
SUPERVISOR_GONE = "the server's supervisor process has ended or hangs; close the server and create a new one"


class BrokerProcess:
    """A broker process and its directory. Both end with the process that created this object."""

    def __init__(self, name: str, directory: Path | None) -> None:
        self._owner = os.getpid()
        self._temporary = directory is None
        self._lock = threading.Lock()
        self._supervisor = subprocess.Popen(  # noqa: S603  our own script
            [sys.executable, "-I", "-S", _supervisor_process.__file__, name, str(directory or "")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is for the owner, which stops the broker cleanly
        )  # fmt: skip
        self._requests = cast("BufferedWriter", self._supervisor.stdin)
        self._stdout = cast("BufferedReader", self._supervisor.stdout)
        self._answers = cast("FileIO", self._stdout.raw)  # select does not see an answer in a buffer
        self._number = 0
        self.directory = Path(self._answer())

    @property
    def owned(self) -> bool:
        """Whether this is the process that started it, not a forked child."""
        return os.getpid() == self._owner

    def start(self, command: list[str], log: Path) -> int:
        """Start the process and return its id."""
        return int(self._ask({"start": command, "log": str(log)}))

    def signal(self, number: int) -> bool:
        """Send a signal. Return False if the process has ended."""
        return bool(self._ask({"signal": number}))

    def status(self) -> int | None:
        """Return the exit status; None while the process runs, or before it was started."""
        status: int | None = self._ask({"poll": True})
        return status

    def close(self) -> None:
        """Kill the process if it runs, and delete the directory unless it is the user's own."""
        with self._lock, suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._supervisor.wait(REPLY_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()  # which kills the broker
            self._supervisor.wait()
        self._stdout.close()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)  # it is still there if the supervisor was killed

    def _ask(self, request: dict[str, Any]) -> Any:
        if not self.owned:
            raise BrokerError("this server belongs to the process that started it; its children only connect")
        with self._lock:
            if self._requests.closed:
                raise BrokerError("the server is closed; create a new one")
            self._number += 1
            try:
                self._requests.write(json.dumps([self._number, request]).encode() + b"\n")
                self._requests.flush()
            except BrokenPipeError as error:
                raise BrokerError(SUPERVISOR_GONE) from error
            answer = self._answer()
        if isinstance(answer, dict):
            raise BrokerError(f"the server could not be started: {answer['error']}")
        return answer

    def _answer(self) -> Any:
        """Return the answer to the last request. Skip answers to requests that Ctrl-C interrupted."""
        number = -1
        answer = None
        while number != self._number:
            ready, _, _ = select.select([self._answers], [], [], REPLY_TIMEOUT_S)
            line = self._answers.readline() if ready else b""
            if not line:
                raise BrokerError(SUPERVISOR_GONE)
            number, answer = json.loads(line)
        return answer


class SharedProcess:
    """Replaces the `BrokerProcess` in a server that is attached to a running one."""

    owned = False

    def __init__(self, handle: Mapping[str, Any]) -> None:
        self.directory = Path(handle["directory"])
        self._pid = int(handle["pid"])

    def start(self, command: list[str], log: Path) -> NoReturn:
        """Refuse."""
        refuse()

    def signal(self, number: int) -> NoReturn:
        """Refuse."""
        refuse()

    def status(self) -> int | None:
        """Return None while the process exists, and -1 afterwards: its exit status is not known."""
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return -1
        return None

    def close(self) -> None:
        """Do nothing: the owner closes it."""


def refuse() -> NoReturn:
    """Raise the error for a call that would disturb others."""
    raise BrokerError(
        "all workers of this test run share this server, so no test may disturb it: start one for the test, "
        "such as `with KafkaServer() as server`, or run without pytest-xdist"
    )
