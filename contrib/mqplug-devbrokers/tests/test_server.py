"""Servers: failed starts, ports, directories, and recovery after kills."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from mqplug_devbrokers import BrokerError, KafkaServer, _server
from mqplug_devbrokers._ports import FIRST_PORT, LAST_PORT, choose_ports, unused_port


def test_a_broker_that_ends_by_itself_shows_its_log() -> None:
    """If a broker refuses a setting and ends, the error shows its status and its log; closing deletes its directory."""
    server = KafkaServer(settings={"num.io.threads": "many"})
    with pytest.raises(BrokerError, match=r"(?s)kafka server ended with status 1; .*num\.io\.threads"):
        server.start()
    assert not server.running
    directory = server.directory
    server.close()
    assert not directory.exists()


def test_a_start_has_a_deadline() -> None:
    """A broker that acknowledges no message in time is killed, and the error suggests timeout=."""
    server = KafkaServer(timeout=0.01)
    with pytest.raises(BrokerError, match=r"no message within 0\.01 s .*give it more with timeout="):
        server.start()
    assert not server.running
    server.close()


def test_a_server_that_was_not_started_says_so() -> None:
    """Before the start, addresses and other properties raise an error that says to call start; closing works."""
    server = KafkaServer()
    assert repr(server) == "<KafkaServer not started>"
    for use in (lambda: server.url, lambda: server.log, lambda: server.pid, server.kill, server.check):
        with pytest.raises(BrokerError, match="call start"):
            use()
    server.stop()
    server.close()


@pytest.mark.night
def test_data_in_a_named_directory_are_kept(tmp_path: Path) -> None:
    """A second server in the directory of a first one has the same ports and the same cluster id."""
    with KafkaServer(directory=tmp_path) as first:
        url, cluster = first.url, (tmp_path / "data" / "meta.properties").read_text()
    with KafkaServer(directory=tmp_path) as second:
        assert second.url == url
        assert (tmp_path / "data" / "meta.properties").read_text() == cluster


@pytest.mark.night
def test_two_servers_are_two_clusters(tmp_path: Path) -> None:
    """Two servers have different cluster ids."""
    names = []
    for name in ("one", "two"):
        with KafkaServer(directory=tmp_path / name):
            properties = (tmp_path / name / "data" / "meta.properties").read_text().splitlines()
            names += [line for line in properties if line.startswith("cluster.id=")]
    assert len(set(names)) == 2


@pytest.mark.disturbs
def test_a_forked_child_does_not_stop_the_server(kafka_server: KafkaServer) -> None:
    """Closing the server in a forked child leaves it running."""
    child = os.fork()
    if not child:
        kafka_server.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert kafka_server.running


CHOOSES = """
import os, sys
os.getpid = lambda: 7  # so all begin with the same ports
from mqplug_devbrokers._ports import unused_port
print(*(unused_port() for _ in range(20)), flush=True)
sys.stdin.read()
"""


def test_a_free_port_is_one_that_nobody_gets_by_chance() -> None:
    """An unused port lies in the package's range, outside that of outgoing connections, and can be bound."""
    port = unused_port()
    assert FIRST_PORT <= port <= LAST_PORT
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))


@pytest.mark.skipif(sys.platform != "linux", reason="claims are names of abstract sockets")
def test_processes_get_different_ports() -> None:
    """Ports that a process was given are given to no other one while it lives, even before a server listens on them."""
    with ExitStack() as running:
        programs = [
            running.enter_context(
                subprocess.Popen([sys.executable, "-c", CHOOSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(4)
        ]
        given = [port for program in programs if program.stdout for port in program.stdout.readline().split()]
    assert len(set(given)) == len(given) == 4 * 20


def test_ports_are_remembered(tmp_path: Path) -> None:
    """The same file gives the same ports, except for an explicitly chosen one."""
    file = tmp_path / "ports.json"
    first = choose_ports(file, ["client", "other"], 0)
    assert choose_ports(file, ["client", "other"], 0) == first
    assert choose_ports(file, ["client", "other"], 4711) == {"client": 4711, "other": first["other"]}


@pytest.mark.night
def test_a_kill_is_remembered_and_an_orderly_stop_is_not(tmp_path: Path) -> None:
    """Only the first start after a kill runs recovery, even if another server object makes it."""
    recovered: list[str] = []

    class Watched(KafkaServer):
        def _recover(self) -> None:
            recovered.append("recovered")

    with Watched(directory=tmp_path) as server:
        server.restart()
        assert recovered == []
        server.kill()
    with Watched(directory=tmp_path):
        assert recovered == ["recovered"]


@pytest.mark.night
def test_a_killed_broker_that_hangs_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a killed broker does not start in time, it is killed and started once more with the full timeout."""
    with KafkaServer() as server:
        server.kill()
        launch, tried = server._launch, list[float]()
        monkeypatch.setattr(_server, "START_AFTER_KILL_S", 0.01)
        monkeypatch.setattr(server, "_launch", lambda *how: (tried.append(how[1]), launch(*how)))
        server.start()
        assert server.running
        assert tried == [0.01, 120.0]
