"""A host in a folder, set up as in docs/deploy.md, that runs the service and the page's steps."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from configparser import ConfigParser
from pathlib import Path

from page_steps import steps

DEPLOY = Path(__file__).parents[1]
UNIT = DEPLOY / "mqplug-rocksmq.service"
MQPLUG = shlex.join([sys.executable, "-m", "mqplug_cli"])
START_S = 60


def read_unit(path: Path = UNIT) -> ConfigParser:
    """Read a unit. A line that is not a setting, or a repeated setting, is an error."""
    unit = ConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None, strict=True)
    unit.optionxform = str
    unit.read_string(path.read_text())
    return unit


class Host:
    """A host in a folder that holds each path of the unit and of the page; all users are the same."""

    def __init__(self, root: Path) -> None:
        self.store = root / "lib/store"
        self.upgrades = 0
        self._sockets = tempfile.TemporaryDirectory(prefix="mq-")  # paths of sockets must be short
        self._paths = {
            "/var/lib/mqplug": str(root / "lib"),
            "/var/backups/mqplug": str(root / "backups"),
            "/run/mqplug": self._sockets.name,
            "/opt/mqplug/bin/mqplug": MQPLUG,
        }
        for folder in ("lib", "backups"):
            (root / folder).mkdir(mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = self._sockets.name  # as in the units of the programs
        self.service: subprocess.Popen[str] | None = None

    def close(self) -> None:
        """Kill the service if it runs."""
        if self.service is not None and self.service.poll() is None:
            self.service.kill()
            self.service.wait(START_S)
        self._sockets.cleanup()

    def start(self) -> str:
        """Start the service as systemd would. Return its readiness notification."""
        unit = read_unit()["Service"]
        assert unit["Type"] == "notify"
        variable, _, value = self.here(unit["Environment"]).partition("=")
        address = f"{self._sockets.name}/manager"
        Path(address).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(START_S)
            self.service = subprocess.Popen(
                shlex.split(self.here(unit["ExecStart"])),
                env={**os.environ, variable: value, "NOTIFY_SOCKET": address},
                stdout=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            return manager.recv(4096).decode()

    def stop(self) -> int:
        """Stop the service as systemd would. Return its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Kill the service. Return its exit code."""
        return self._end(signal.SIGKILL)

    def carry_out(self, name: str) -> str:
        """Run the steps of the page, each of which must succeed. Return their output."""
        return "".join(map(self._step, steps(name)))

    def here(self, text: str) -> str:
        """Return a text of the unit or of the page with this host's paths."""
        for path, ours in self._paths.items():
            text = text.replace(path, ours)
        return text

    def _step(self, line: str) -> str:
        command = line.removeprefix("sudo ").removeprefix("-u mqplug ")
        if command.startswith("systemctl "):
            _, verb, name = command.split()
            assert name == UNIT.stem
            return str({"start": self.start, "stop": self.stop}[verb]())
        if command.startswith("/opt/mqplug/bin/pip "):
            self.upgrades += 1
            return ""
        done = subprocess.run(
            self.here(command), shell=True, capture_output=True, text=True, check=False, timeout=START_S
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _end(self, number: signal.Signals) -> int:
        assert self.service is not None
        self.service.send_signal(number)
        return self.service.wait(START_S)
