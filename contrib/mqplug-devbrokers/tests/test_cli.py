"""The command mqplug-devbrokers: running a broker until a signal, and filling the cache."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mqplug_devbrokers import KafkaServer, PulsarServer, cli
from mqplug_testing import free_port


def listens(url: str) -> bool:
    """Return whether connections to the URL's address are accepted."""
    host, _, port = url.rpartition("//")[2].rpartition(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.night)])
def test_up_runs_until_a_signal_and_leaves_nothing(scratch: Path, number: int) -> None:
    """``up`` prints the URL on its own line and runs until a signal; then the broker and its directory are gone."""
    command = [sys.executable, "-m", "mqplug_devbrokers", "up", "kafka"]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        url = lines[1].strip()
        assert url.startswith("kafka://127.0.0.1:")
        assert f"kill {process.pid}" in lines[2]
        shown = [process.stdout.readline() for _ in range(4)]
        assert tomllib.loads("".join(shown)) == {"kafka": {"servers": [url.removeprefix("kafka://")]}}
        assert listens(url)
        process.send_signal(number)
        assert process.wait(30) == 0
    assert not listens(url)
    assert list(scratch.iterdir()) == []


@pytest.mark.night
def test_port_and_directory_are_taken(tmp_path: Path) -> None:
    """``up`` with --port and --keep listens on that port and keeps the data in that directory."""
    port = free_port()
    command = [sys.executable, "-m", "mqplug_devbrokers", "up", "kafka", f"--port={port}", f"--keep={tmp_path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.stdout.readline() == f"kafka://127.0.0.1:{port}\n"
        process.terminate()
        assert process.wait(30) == 0
    assert (tmp_path / "data" / "meta.properties").exists()


def test_a_failure_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without Java the command ends with status 1 and a one-line reason instead of a traceback."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert cli.main(["up", "kafka"]) == 1
    assert capsys.readouterr().err.startswith("mqplug-devbrokers: no java was found")


def test_fetch_fills_the_cache_for_both(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """``fetch`` without a name fetches both brokers, and with a name and a version only that one."""
    fetched: list[str] = []
    monkeypatch.delenv("MQPLUG_DEVBROKERS_KAFKA", raising=False)
    monkeypatch.setattr(KafkaServer, "fetch", lambda server: fetched.append(f"kafka {server.version}"))
    monkeypatch.delenv("MQPLUG_DEVBROKERS_PULSAR", raising=False)
    monkeypatch.setattr(PulsarServer, "fetch", lambda server: fetched.append(f"pulsar {server.version}"))
    assert cli.main(["fetch"]) == 0
    assert fetched == ["kafka 4.3.1", "pulsar 4.0.8"]
    assert cli.main(["fetch", "pulsar", "--version", "4.2"]) == 0
    assert cli.main(["fetch", "kafka", "--version", "3.9"]) == 0
    assert fetched == ["kafka 4.3.1", "pulsar 4.0.8", "pulsar 4.2.4", "kafka 3.9.2"]
    assert "pulsar is ready to start" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["up"],
        ["up", "rabbit"],
        ["up", "kafka", "--port=99999"],
        ["up", "kafka", "--version=2.8"],
        ["up", "pulsar", "--version=4.3"],
        ["fetch", "--version=3.9"],
    ],
)
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments end the command with status 2 and its usage."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: mqplug-devbrokers" in capsys.readouterr().err
