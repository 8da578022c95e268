"""The supervisor process of a broker: however its owner ends, no process or directory remains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from mqplug_devbrokers import BrokerError
from mqplug_devbrokers._broker_process import BrokerProcess

HOLD_A_SLEEP = """
import json, os, time
from pathlib import Path
from mqplug_devbrokers._broker_process import BrokerProcess
process = BrokerProcess("sleeper", None)
pid = process.start(["sleep", "1000"], process.directory / "log")
{then}
print(json.dumps([pid, str(process.directory)]), flush=True)
time.sleep(1000)
"""
FORK_A_HOLDER = "child = os.fork()\nif not child: time.sleep(1000)"
BUSY_THREADS = """
import threading, time
def work():
    while True:
        time.sleep(0.0005)
for _ in range(60):
    threading.Thread(target=work, daemon=True).start()
print("ready")
time.sleep(1000)
"""
HOLD_KAFKA = """
import json, time
from mqplug_devbrokers import KafkaServer
with KafkaServer() as kafka:
    print(json.dumps([kafka.pid, str(kafka.directory)]), flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def process() -> Iterator[BrokerProcess]:
    """A broker process that is closed after the test."""
    process = BrokerProcess("sleeper", None)
    yield process
    process.close()


def read_state(owner: subprocess.Popen[str]) -> tuple[int, Path]:
    """Return the process id and the directory that an owner printed."""
    assert owner.stdout is not None
    pid, directory = json.loads(owner.stdout.readline())
    return pid, Path(directory)


def states(pid: int) -> set[str]:
    """Return the states of a process's threads, as letters of proc(5)."""
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads show their state on Linux only")
def test_nobody_moves_after_a_stop(process: BrokerProcess) -> None:
    """When the call that sends SIGSTOP returns, every thread of the broker is stopped."""
    pid = process.start([sys.executable, "-u", "-c", BUSY_THREADS], process.directory / "log")
    while "ready" not in (process.directory / "log").read_text():
        time.sleep(0.01)
    for _ in range(50):
        assert process.signal(signal.SIGSTOP)
        assert states(pid) == {"T"}
        assert process.signal(signal.SIGSTOP)  # a second one changes nothing
        assert process.signal(signal.SIGCONT)


@pytest.mark.parametrize("program", [HOLD_A_SLEEP.format(then=""), HOLD_KAFKA], ids=["sleep", "kafka"])
def test_a_killed_owner_leaves_nothing(owner, eventually, gone, scratch, program) -> None:
    """After kill -9 of the owner the broker ends and its directory is deleted."""
    process = owner(program)
    pid, directory = read_state(process)
    assert directory.parent == scratch
    process.kill()
    eventually(lambda: gone(pid) and not any(scratch.iterdir()))


def test_a_forked_child_does_not_keep_the_broker_alive(owner, eventually, gone, scratch) -> None:
    """The broker ends with its owner even if a forked child of the owner still holds the pipe."""
    process = owner(HOLD_A_SLEEP.format(then=FORK_A_HOLDER))
    pid, _ = read_state(process)
    children = psutil.Process(process.pid).children()
    process.kill()
    try:
        eventually(lambda: gone(pid) and not any(scratch.iterdir()))
    finally:
        for child in children:
            if child.is_running():
                child.kill()


def test_an_interrupted_terminal_does_not_end_the_supervisor(process: BrokerProcess, eventually) -> None:
    """Signals from a terminal end neither the supervisor nor the broker."""
    process.start(["sleep", "1000"], process.directory / "log")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process._supervisor.pid, number)
    assert process.status() is None


def test_a_killed_supervisor_takes_the_broker_along(process: BrokerProcess, eventually, gone: Callable) -> None:
    """If the supervisor is killed the broker ends, and the owner's next request raises BrokerError."""
    pid = process.start(["sleep", "1000"], process.directory / "log")
    os.kill(process._supervisor.pid, signal.SIGKILL)
    eventually(lambda: gone(pid))
    with pytest.raises(BrokerError, match="create a new one"):
        process.status()
    process.close()
    assert not process.directory.exists()


def test_the_broker_obeys_sigterm(process: BrokerProcess, eventually) -> None:
    """SIGTERM ends the broker, which does not inherit the supervisor's ignored signals."""
    process.start(["sleep", "1000"], process.directory / "log")
    assert process.signal(signal.SIGTERM)
    eventually(lambda: process.status() is not None)
    assert process.status() == -signal.SIGTERM
    assert not process.signal(signal.SIGTERM)


def test_output_goes_to_the_log(process: BrokerProcess, eventually) -> None:
    """The broker's standard output and standard error go to its log."""
    log = process.directory / "log"
    process.start(["sh", "-c", "echo out; echo err >&2"], log)
    eventually(lambda: process.status() == 0)
    assert log.read_text() == "out\nerr\n"


def test_a_command_that_cannot_run_is_named(process: BrokerProcess) -> None:
    """Starting a missing program raises BrokerError, which names it."""
    with pytest.raises(BrokerError, match="no-such-program"):
        process.start(["/no-such-program"], process.directory / "log")


def test_a_chosen_directory_stays(tmp_path: Path) -> None:
    """Closing keeps a directory that the user chose."""
    process = BrokerProcess("sleeper", tmp_path)
    process.close()
    assert tmp_path.is_dir()


def test_a_forked_child_cannot_use_it(process: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request from another process than the owner's raises BrokerError."""
    monkeypatch.setattr(os, "getpid", lambda: 0)
    with pytest.raises(BrokerError, match="belongs to the process"):
        process.status()
    monkeypatch.undo()


def test_an_interrupted_request_does_not_confuse_the_next(process: BrokerProcess) -> None:
    """A request whose answer was not read, as after Ctrl-C, does not shift later answers."""
    process.start(["sleep", "1000"], process.directory / "log")
    for _ in range(3):
        process._number += 1
        process._requests.write(json.dumps([process._number, {"signal": 0}]).encode() + b"\n")
    assert process.status() is None
    assert process.signal(signal.SIGCONT) is True
