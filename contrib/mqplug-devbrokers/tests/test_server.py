"""Starts that fail say why, and leave nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mqplug_devbrokers import BrokerError, KafkaServer, _server
from mqplug_devbrokers._ports import FIRST_PORT, LAST_PORT, choose_ports, unused_port


def test_a_broker_that_ends_by_itself_shows_its_log() -> None:
    """A setting that the broker refuses is in the error, in the broker's own words."""
    server = KafkaServer(settings={"num.io.threads": "many"})
    with pytest.raises(BrokerError, match=r"(?s)kafka server ended with status 1; .*num\.io\.threads"):
        server.start()
    assert not server.running
    directory = server.directory
    server.close()
    assert not directory.exists()


def test_a_start_has_a_deadline() -> None:
    """A broker that acknowledges nothing in time is killed, and the error says what to do."""
    server = KafkaServer(timeout=0.01)
    with pytest.raises(BrokerError, match=r"no message within 0\.01 s .*give it more with timeout="):
        server.start()
    assert not server.running
    server.close()


def test_a_server_that_was_not_started_says_so() -> None:
    """Addresses and numbers exist only after the start; closing is always fine."""
    server = KafkaServer()
    assert repr(server) == "<KafkaServer not started>"
    for use in (lambda: server.url, lambda: server.log, lambda: server.pid, server.kill, server.check):
        with pytest.raises(BrokerError, match="call start"):
            use()
    server.stop()
    server.close()


@pytest.mark.night
def test_data_in_a_named_directory_are_kept(tmp_path: Path) -> None:
    """A second server on the directory of a first one has its ports and its cluster."""
    with KafkaServer(directory=tmp_path) as first:
        url, cluster = first.url, (tmp_path / "data" / "meta.properties").read_text()
    with KafkaServer(directory=tmp_path) as second:
        assert second.url == url
        assert (tmp_path / "data" / "meta.properties").read_text() == cluster


@pytest.mark.night
def test_two_servers_are_two_clusters(tmp_path: Path) -> None:
    """No two servers share the identity that clients see."""
    names = []
    for name in ("one", "two"):
        with KafkaServer(directory=tmp_path / name):
            properties = (tmp_path / name / "data" / "meta.properties").read_text().splitlines()
            names += [line for line in properties if line.startswith("cluster.id=")]
    assert len(set(names)) == 2


@pytest.mark.disturbs
def test_a_forked_child_does_not_stop_the_server(kafka_server: KafkaServer) -> None:
    """Closing the copy in a child is harmless."""
    child = os.fork()
    if not child:
        kafka_server.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert kafka_server.running


CHOOSES = "from mqplug_devbrokers._ports import unused_port; print(*(unused_port() for _ in range(20)))"


def test_a_free_port_is_one_that_nobody_gets_by_chance() -> None:
    """It lies below the range of outgoing connections, and can be bound."""
    port = unused_port()
    assert FIRST_PORT <= port <= LAST_PORT
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))


def test_processes_that_choose_at_the_same_time_get_different_ports() -> None:
    """Each chooses from a block of its own, and gives no port twice."""
    programs = [subprocess.Popen([sys.executable, "-c", CHOOSES], stdout=subprocess.PIPE) for _ in range(4)]
    given = [port for program in programs for port in program.communicate(timeout=60)[0].split()]
    assert len(set(given)) == len(given) == 4 * 20


def test_ports_are_remembered(tmp_path: Path) -> None:
    """The same file gives the same ports, but for the one that was asked for."""
    file = tmp_path / "ports.json"
    first = choose_ports(file, ["client", "other"], 0)
    assert choose_ports(file, ["client", "other"], 0) == first
    assert choose_ports(file, ["client", "other"], 4711) == {"client": 4711, "other": first["other"]}


@pytest.mark.night
def test_a_kill_is_remembered_and_an_orderly_stop_is_not(tmp_path: Path) -> None:
    """The next start mends what a kill left, also in a process of its own; after a stop there is nothing to mend."""
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
    """When a broker that was killed does not come back at once, it is killed and started once more."""
    with KafkaServer() as server:
        server.kill()
        launch, tried = server._launch, list[float]()
        monkeypatch.setattr(_server, "START_AFTER_KILL_S", 0.01)
        monkeypatch.setattr(server, "_launch", lambda *how: (tried.append(how[1]), launch(*how)))
        server.start()
        assert server.running
        assert tried == [0.01, 120.0]
