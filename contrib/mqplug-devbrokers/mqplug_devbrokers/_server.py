"""The base class of the servers: start, wait for an acknowledged message, stop, kill, pause, cut the network."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mqplug_devbrokers._broker_process import BrokerProcess, SharedProcess, refuse
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._ports import choose_ports

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Self

    from mqplug_testing import NetworkHooks, Proxy, ServerHooks

    class BrokerHooks(ServerHooks, NetworkHooks):
        """The hooks of a harness that disturb a broker, or the network in front of it."""


STOP_TIMEOUT_S = 60.0  # long enough to write a class archive on a busy machine
START_AFTER_KILL_S = 30.0  # for the first start of a broker that was killed
GIVE_UP_S = 10.0  # for the clean end of a broker that did not become ready
LOG_TAIL_LINES = 25
PROBE_TOPIC = "mqplug-devbrokers-ready"


class StartedInBlock(ABC):
    """A server or a cluster that a `with` block starts and closes. If it cannot be started, it is closed as well."""

    @abstractmethod
    def start(self) -> None:
        """Start it, and wait until it is ready."""

    @abstractmethod
    def close(self) -> None:
        """End it, and release everything."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BrokerServer(StartedInBlock):
    """A broker of one node on loopback, which ends with this process.

    `port` is for clients (0: a free one). `directory` keeps the data, which is otherwise deleted at the end.
    `settings` override the broker's configuration. `timeout` limits each start.
    """

    name: ClassVar[str]
    version: str
    port_names: ClassVar[list[str]]

    def __init__(
        self,
        *,
        port: int = 0,
        directory: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        timeout: float = 120.0,
    ) -> None:
        self._wanted_port = port
        self._wanted_directory = None if directory is None else Path(directory).absolute()
        self.settings = dict(settings or {})
        self.recording: Path | None = None  # Java writes its class archive there at the end
        self._timeout = timeout
        self._process: BrokerProcess | SharedProcess | None = None
        self._network: Proxy | None = None
        self._ports: dict[str, int] = {}
        self._pid: int | None = None

    def __repr__(self) -> str:
        state = f"127.0.0.1:{self.port}, pid {self._pid}" if self._process else "not started"
        return f"<{type(self).__name__} {state}>"

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL for `mqplug.connect`."""

    @property
    @abstractmethod
    def toml(self) -> str:
        """The lines of a `mqplug.toml` that connects to this server."""

    @property
    @abstractmethod
    def relayed_url(self) -> str:
        """The URL for `mqplug.connect`, over the network that `cut_network` cuts."""

    @abstractmethod
    def _routes(self) -> dict[int, int]:
        """Return the ports of the network that can be cut, and the broker's port for each."""

    @abstractmethod
    def fetch(self) -> None:
        """Fill the cache with everything that a start needs."""

    def recorder(self) -> BrokerServer:
        """Return a plain server of the same version, which records the class archive."""
        return type(self)()

    @abstractmethod
    def _command(self) -> list[str]:
        """Write the configuration and return the command that starts the broker."""

    def _recover(self) -> None:
        """Repair the data after a kill, before the next start."""

    @abstractmethod
    def _probe(self) -> None:
        """Send a message and wait for its ack. Raise OSError or BrokerError while the broker is not ready."""

    @property
    def port(self) -> int:
        """The port for clients."""
        return self._port(self.port_names[0])

    @property
    def pid(self) -> int:
        """The id of the broker's process."""
        if self._pid is None:
            raise BrokerError(f"the {self.name} server is not running; call start()")
        return self._pid

    @property
    def directory(self) -> Path:
        """The directory of configuration, data and log."""
        return self._held().directory

    @property
    def log(self) -> Path:
        """The broker's log, in the directory."""
        return self.directory / "broker.log"

    @property
    def running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._pid is not None and self._held().status() is None

    def start(self) -> None:
        """Start the broker and wait until it has acknowledged a message.

        If it ran before, it keeps its data and ports. Files missing in the cache are fetched first.
        """
        if self.running:
            return
        process = self._prepare()
        if self._in_use.exists():
            # A killed broker, or a part of it, sometimes hangs at its next start, but not at the one after.
            with suppress(BrokerError):
                self._launch(process, min(START_AFTER_KILL_S, self._timeout))
                return
        self._launch(process, self._timeout)

    def stop(self) -> None:
        """Stop the broker cleanly. Its data stays for another `start`."""
        if not self.running:
            self._pid = None
            return
        self.unpause()
        self._signal(signal.SIGTERM)
        if self._ended_within(STOP_TIMEOUT_S):
            self._in_use.unlink(missing_ok=True)
            self._pid = None
        else:
            self.kill()

    def kill(self) -> None:
        """Kill the broker (SIGKILL). Its data stays for another `start`."""
        self._signal(signal.SIGKILL)
        if not self._ended_within(STOP_TIMEOUT_S):
            raise BrokerError(
                f"process {self._pid} of the {self.name} server has not ended {STOP_TIMEOUT_S:.0f} s after SIGKILL"
            )
        self._pid = None

    def restart(self) -> None:
        """Stop the broker, if it runs, and start it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop the broker from answering (SIGSTOP). Its connections stay open."""
        self._signal(signal.SIGSTOP)

    def unpause(self) -> None:
        """Continue a paused broker (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def cut_network(self) -> None:
        """Cut the network of clients at the relayed address: packets vanish, and connections stay open."""
        self._relay().cut()

    def heal_network(self) -> None:
        """Restore the network. Connections that were cut continue, and new ones can be opened."""
        self._relay().heal()

    def delay_network(self, seconds: float) -> None:
        """Delay everything between the broker and clients at the relayed address, each way, until `heal_network`."""
        self._relay().delay(seconds)

    def break_connection(self) -> int:
        """Reset one connection of clients at the relayed address, the one used last. Return 0 if there is none."""
        return self.break_connections(1)

    def break_connections(self, count: int | None = None) -> int:
        """Reset connections of clients at the relayed address (None: all), and return how many there were."""
        return self._relay().break_connections(count)

    def stall_replies(self) -> None:
        """Hold back the broker's answers to clients at the relayed address, until `heal_network` delivers them."""
        self._relay().stall_replies()

    def drop_replies(self) -> None:
        """Lose the broker's answers to clients at the relayed address, until `heal_network`."""
        self._relay().drop_replies()

    def reset_replies(self) -> None:
        """Reset each relayed connection when the broker answers on it, until `heal_network`."""
        self._relay().reset_replies()

    def hooks(self) -> BrokerHooks:
        """Return the hooks of a harness of `mqplug_testing`: `Harness(..., **server.hooks())`."""
        return {
            "restart": self.restart, "kill": self.kill, "start": self.start, "pause": self.pause,
            "unpause": self.unpause, "cut_network": self.cut_network, "heal_network": self.heal_network,
            "stall_replies": self.stall_replies, "drop_replies": self.drop_replies,
            "reset_replies": self.reset_replies,
        }  # fmt: skip

    def handle(self) -> dict[str, Any]:
        """Return what another process needs to `attach` to this server, as JSON."""
        return {"directory": str(self.directory), "pid": self.pid, "ports": self._ports}

    def attach(self, handle: Mapping[str, Any]) -> None:
        """Attach to a server that another process runs. Clients may use it, and nothing may disturb it."""
        self._process, self._pid, self._ports = SharedProcess(handle), handle["pid"], dict(handle["ports"])

    def check(self) -> None:
        """Raise a BrokerError, with the end of the log, if the broker has ended by itself."""
        status = self._held().status()
        if status is not None:
            self._pid = None
            raise BrokerError(f"the {self.name} server ended with status {status}; {self._log_tail()}")

    def close(self) -> None:
        """Stop the broker and delete its directory, unless you named one. Closing twice is harmless."""
        process = self._process
        if process is None or not process.owned:
            return
        if self._network is not None:
            self._network.close()
            self._network = None
        try:
            self.stop()
        finally:
            self._process = self._pid = None
            process.close()

    @property
    def _in_use(self) -> Path:
        """A file that exists while the broker runs, and after it was killed."""
        return self.directory / "in-use"

    def _prepare(self, taken: Collection[int] = ()) -> BrokerProcess | SharedProcess:
        """Fetch missing files, and choose directory and ports, before the first start."""
        if self._process is not None:
            return self._process
        if self.recording is None:
            self.fetch()
        if self._wanted_directory is not None:
            self._wanted_directory.mkdir(parents=True, exist_ok=True)
        self._process = BrokerProcess(self.name, self._wanted_directory)
        file = self._process.directory / "ports.json"
        self._ports = choose_ports(file, self.port_names, self._wanted_port, taken)
        return self._process

    def _launch(self, process: BrokerProcess | SharedProcess, timeout: float) -> None:
        if self._in_use.exists():
            self._recover()
        self._in_use.touch()
        self._pid = process.start(self._command(), self.log)
        self._wait_until_ready(timeout)

    def _wait_until_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            self.check()
            try:
                self._probe()
            except (OSError, BrokerError) as error:
                if time.monotonic() > deadline:
                    tail = self._log_tail()
                    self._give_up()
                    raise BrokerError(
                        f"the {self.name} server acknowledged no message within {timeout:g} s "
                        f"(last: {error}); give it more with timeout=; {tail}"
                    ) from error
                time.sleep(0.05)
            else:
                self.check()  # raises if another process answered
                return

    def _give_up(self) -> None:
        """End a broker that did not become ready, cleanly if possible, so that its next start has less to repair."""
        self._signal(signal.SIGTERM)
        if self._ended_within(GIVE_UP_S):
            self._pid = None
        else:
            self.kill()

    def _ended_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._held().status() is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _signal(self, number: int) -> None:
        if self._pid is None or not self._held().signal(number):
            raise BrokerError(f"the {self.name} server is not running; call start()")

    def _held(self) -> BrokerProcess | SharedProcess:
        if self._process is None:
            raise BrokerError(f"the {self.name} server is not started; call start(), or use `with`")
        return self._process

    def _port(self, name: str) -> int:
        self._held()
        return self._ports[name]

    def _relay(self) -> Proxy:
        """Return the network that can be cut. It is created, with its thread, on demand."""
        if isinstance(self._held(), SharedProcess):
            refuse()
        if self._network is None:
            from mqplug_testing import Proxy  # slow to import, and few servers need it

            routes = self._routes()
            self._network = Proxy(*routes.values(), ports=[*routes])
        return self._network

    def _relayed(self, name: str) -> int:
        """Return a port of the network that can be cut."""
        self._relay()
        return self._port(name)

    def _log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return f"the end of its log ({self.log}):\n" + "\n".join(lines[-LOG_TAIL_LINES:] or ["(empty)"])
