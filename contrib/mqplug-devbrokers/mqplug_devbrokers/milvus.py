"""A real Milvus in one process, with its etcd, on a Kafka, a Pulsar, or its own RocksMQ."""

from __future__ import annotations

import shutil
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from mqplug_devbrokers import _milvus_files
from mqplug_devbrokers._broker_process import BrokerProcess
from mqplug_devbrokers._errors import BrokerError
from mqplug_devbrokers._ports import choose_ports
from mqplug_devbrokers._server import LOG_TAIL_LINES, StartedInBlock
from mqplug_devbrokers.kafka import KafkaServer
from mqplug_devbrokers.pulsar import PulsarServer

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLES = ["ROOTCOORD", "DATACOORD", "QUERYCOORD", "INDEXCOORD", "PROXY", "QUERYNODE", "DATANODE", "INDEXNODE"]
PORTS = [
    "proxy", "proxy_internal", "root_coord", "query_coord", "query_node", "index_coord", "index_node", "data_coord",
    "data_node", "etcd", "etcd_peer", "metrics",
]  # fmt: skip
SESSION_S = 5  # after a kill, the next start waits until the old sessions have expired
END_S = 30.0


class MilvusServer(StartedInBlock):
    """A real Milvus for tests: `with KafkaServer(...) as kafka, MilvusServer(kafka) as milvus: ...`.

    It writes to the given broker, or else to its own RocksMQ. The broker must create topics automatically: start it
    with `MilvusServer.KAFKA_SETTINGS` or `MilvusServer.PULSAR_SETTINGS`. Needs the extra `mqplug-devbrokers[milvus]`,
    Linux and a processor with AVX.
    """

    KAFKA_SETTINGS: Mapping[str, str] = {"auto.create.topics.enable": "true"}
    PULSAR_SETTINGS: Mapping[str, str] = {
        "allowAutoTopicCreation": "true",
        "allowAutoTopicCreationType": "non-partitioned",
    }

    def __init__(
        self,
        queue: KafkaServer | PulsarServer | None = None,
        *,
        directory: str | Path | None = None,
        timeout: float = 120.0,
    ) -> None:
        self._queue = queue
        self._timeout = timeout
        self._wanted_directory = None if directory is None else Path(directory).absolute()
        self._process: BrokerProcess | None = None
        self._ports: dict[str, int] = {}
        self._started = False

    @property
    def directory(self) -> Path:
        """The directory of its configuration, data and log."""
        return self._held().directory

    @property
    def address(self) -> str:
        """The address for Milvus' own clients, and of its REST interface."""
        return f"http://127.0.0.1:{self._ports['proxy']}"

    @property
    def etcd(self) -> str:
        """The address of its etcd."""
        return f"http://127.0.0.1:{self._ports['etcd']}"

    @property
    def rocksmq(self) -> Path:
        """The files of its own RocksMQ, beside which those of `rocksmq_meta_kv` lie."""
        return self.directory / "rocksmq"

    @property
    def configuration(self) -> Path:
        """Its `milvus.yaml`."""
        return self.directory / "configs" / "milvus.yaml"

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name its queue: a program that reads its `milvus.yaml` needs them too."""
        match self._queue:
            case KafkaServer() as kafka:
                return {"MQ_TYPE": "kafka", "KAFKA_BROKERLIST": f"127.0.0.1:{kafka.port}"}
            case PulsarServer() as pulsar:
                web = pulsar.admin_url.rpartition(":")[2]
                address = {"PULSAR_ADDRESS": "127.0.0.1", "PULSAR_PORT": str(pulsar.port), "PULSAR_WEBPORT": web}
                return {"MQ_TYPE": "pulsar", **address}
            case _:
                return {"MQ_TYPE": "rocksmq"}

    @property
    def log(self) -> Path:
        """What it has printed."""
        return self.directory / "milvus.log"

    @property
    def running(self) -> bool:
        """Whether its process exists."""
        return self._started and self._process is not None and self._process.status() is None

    def start(self) -> None:
        """Start it and wait until it is healthy. If it ran before, it keeps its data and ports."""
        if self.running:
            return
        program = _milvus_files.program()
        if self._process is None:
            self._process = BrokerProcess("milvus", self._wanted_directory)
        directory = self.directory
        self._ports = choose_ports(directory / "ports.json", PORTS, 0)
        _milvus_files.write_configuration(directory, self._ports)
        self._process.start(self._command(program), self.log)
        self._started = True
        deadline = time.monotonic() + self._timeout
        while not self._healthy():
            if self._process.status() is not None:
                raise BrokerError(f"Milvus has ended:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                raise BrokerError(f"Milvus was not healthy after {self._timeout:.0f} s:\n{self._log_tail()}")
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill it (SIGKILL). Its data stays for another `start`. Milvus does not end by itself."""
        process = self._held()
        process.signal(signal.SIGKILL)
        deadline = time.monotonic() + END_S
        while process.status() is None:
            if time.monotonic() > deadline:
                raise BrokerError(f"Milvus has not ended {END_S:.0f} s after SIGKILL")
            time.sleep(0.02)

    def move_to(self, queue: KafkaServer | PulsarServer) -> None:
        """Let the next `start` use another broker, which must hold the same topics at the same offsets."""
        if self.running:
            raise BrokerError("Milvus runs; kill() it first")
        self._queue = queue

    def close(self) -> None:
        """Kill it if it runs, and delete its directory unless it is the user's own."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _held(self) -> BrokerProcess:
        if self._process is None:
            raise BrokerError("Milvus is not started; call start()")
        return self._process

    def _command(self, program: Path) -> list[str]:
        variables = {
            "DEPLOY_MODE": "STANDALONE",
            "COMMON_SESSION_TTL": str(SESSION_S),
            "ETCD_CONFIG_PATH": str(self.directory / "configs" / "etcd.yaml"),
            "LD_LIBRARY_PATH": str(program),
            "METRICS_PORT": str(self._ports["metrics"]),
            "MILVUS_RUN_DIR": str(self.directory / "run"),
            "TMPDIR": str(self.directory),
            **{f"{role}_IP": "127.0.0.1" for role in ROLES},
            **self.variables,
        }
        env = shutil.which("env") or "/usr/bin/env"
        return [
            env,
            *(f"{name}={value}" for name, value in variables.items()),
            str(program / "milvus"),
            "run",
            "standalone",
        ]

    def _healthy(self) -> bool:
        address = f"http://127.0.0.1:{self._ports['metrics']}/healthz"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return b"OK" in answer.read()
        except OSError:
            return False

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
