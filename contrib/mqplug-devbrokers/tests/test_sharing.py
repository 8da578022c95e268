"""One broker for all workers of pytest-xdist. It ends with the run, even if the run is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mqplug_devbrokers import KafkaServer

TESTS = """
import time, pytest
from pathlib import Path
from mqplug_devbrokers import BrokerError
from mqplug_devbrokers._kafka_wire import KafkaWire

@pytest.mark.parametrize("number", range(3))
def test_it(kafka_server, number, worker_id):
    Path(f"pid-{number}").write_text(f"{kafka_server.pid} {worker_id} {kafka_server.directory}")
    with KafkaWire(kafka_server.port, timeout=20) as kafka:
        kafka.create_topic(f"t{number}")
        kafka.produce(f"t{number}", b"x")
    end = time.monotonic() + 60
    while len(list(Path().glob("pid-*"))) < 3 or Path("stay").exists():  # all workers are at it
        assert time.monotonic() < end
        time.sleep(0.05)
    for disturb in (kafka_server.kill, kafka_server.pause, kafka_server.stop, kafka_server.restart,
                    kafka_server.cut_network, lambda: kafka_server.relayed_url):
        with pytest.raises(BrokerError, match="all workers of this test run share this server"):
            disturb()
    assert kafka_server.running
"""
Wait = Callable[[Callable[[], bool]], None]
Gone = Callable[[int], bool]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    """Return a function that starts a run with three workers."""
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-n", "3", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, "test_it.py"], cwd=tmp_path, env={**clean, "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    return start


def shared(folder: Path) -> tuple[int, Path]:
    """Return the process id and the directory of the broker that all three workers used."""
    seen = [path.read_text().split() for path in folder.glob("pid-*")]
    assert len({worker for _, worker, _ in seen}) == 3
    assert len({pid for pid, _, _ in seen}) == 1
    return int(seen[0][0]), Path(seen[0][2])


@pytest.mark.night
def test_workers_share_one_broker_which_ends_with_the_run(
    run: Callable[[], subprocess.Popen[str]], tmp_path: Path, eventually: Wait, gone: Gone
) -> None:
    """Three workers share one broker and cannot disturb it; after the run its process and files are gone."""
    with run() as process:
        output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    pid, directory = shared(tmp_path)
    eventually(lambda: gone(pid) and not directory.exists())
    eventually(lambda: not list(tmp_path.glob("mqplug-devbrokers-*")))


def test_a_killed_run_leaves_no_broker(
    run: Callable[[], subprocess.Popen[str]], tmp_path: Path, eventually: Wait, gone: Gone
) -> None:
    """If the process that started the workers is killed, the shared broker ends and its directory is deleted."""
    (tmp_path / "stay").touch()
    with run() as process:
        end = time.monotonic() + 60
        while len([path for path in tmp_path.glob("pid-*") if path.read_text()]) < 3:
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        pid, directory = shared(tmp_path)
        eventually(lambda: gone(pid) and not directory.exists())


def test_an_attached_server_notices_that_it_is_gone(eventually: Wait) -> None:
    """An attached server is no longer `running` once its process has ended."""
    with KafkaServer() as server:
        attached = KafkaServer()
        attached.attach(server.handle())
        assert attached.running
        server.kill()
        eventually(lambda: not attached.running)
