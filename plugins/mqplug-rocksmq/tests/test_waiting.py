"""Waiting costs nothing, and Ctrl-C ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rocksmq_stores import freeze, line, nightly, python, serving
from store_seam import Ownership

import mqplug

SECONDS = 2.0
LITTLE = 0.05  # share of the time: a caller checks for Ctrl-C now and then

CONSUMERS = {
    "reader": "start=mqplug.LATEST",
    "member": 'group="g"',
    "worker": 'group="s", mode="shared"',
    "worker by key": 'group="k", mode="key_shared"',
}


@pytest.fixture
def server(request: pytest.FixtureRequest, path: Path) -> Iterator[subprocess.Popen[str] | None]:
    """A store that has no owner yet, or that another process serves."""
    if request.param == "owner":
        yield None
        return
    with serving(path) as process:
        yield process


WAIT = """
import time
with mqplug.connect("rocksmq", path=str(path)) as mq:
    mq.create_topic("orders", partitions=4)
    with mq.consumer("orders", {options}) as orders, mq.producer("orders") as out:
        orders.receive(timeout=0.5)
        print("waiting", flush=True)
        before = time.process_time()
        assert orders.receive(timeout={seconds}) is None
        print(time.process_time() - before, flush=True)
        out.send(b"now")
        print(orders.receive(timeout=20).value, flush=True)
"""


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        *(("owner", "reader"), ("owner", "worker"), ("guest", "member"), ("guest", "worker by key")),
        *nightly(("owner", "member"), ("owner", "worker by key"), ("guest", "reader"), ("guest", "worker")),
    ],
    indirect=["server"],
)
def test_a_blocked_receive_costs_nothing(path: Path, server: subprocess.Popen[str] | None, kind: str) -> None:
    """A waiting receive uses hardly any processor time, and neither does the process that serves it."""
    with python(WAIT.format(options=CONSUMERS[kind], seconds=SECONDS), path) as process:
        assert line(process) == "waiting"
        before = busy(server) if server else 0.0
        assert float(line(process)) < LITTLE * SECONDS
        assert (busy(server) if server else 0.0) - before < LITTLE * SECONDS
        assert line(process) == "b'now'"


def busy(process: subprocess.Popen[str]) -> float:
    """Return the seconds of processor time of a process."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


# Ctrl-C --------------------------------------------------------------------------------------------------

INTERRUPTED = """
import time
with mqplug.connect("rocksmq", path=str(path)) as mq:
    mq.create_topic("orders", exist_ok=True)
    with mq.producer("orders") as out, mq.consumer("orders", group="g") as orders:
        out.send(b"a")
        assert orders.receive(timeout=20)
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            print("go", flush=True)
            {call}
        except KeyboardInterrupt:
            print("interrupted", time.time(), flush=True)
"""
CALLS = {
    "receive": "orders.receive()",
    "receive_many": "orders.receive_many(100)",
    "iterate": "[None for _ in orders]",
    "read": "time.sleep(0); orders.seek(mqplug.LATEST); orders.receive(timeout=60)",
}
CALLS_OF_A_GUEST = {"send": 'out.send(b"b")', "submit": 'out.submit(b"b").result(60)', "topics": "mq.topics()"}


@contextmanager
def interrupted(path: Path, call: str, frozen: subprocess.Popen[str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A program that is interrupted in a call, and reports that at once."""
    with python(INTERRUPTED.format(call=call), path) as process:
        assert line(process) == "ready"
        if frozen:
            freeze(frozen)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert line(process) == "go"
        time.sleep(0.3)  # until it waits
        began = time.time()
        process.send_signal(signal.SIGINT)
        what, _, when = line(process).partition(" ")
        assert what == "interrupted"
        assert float(when) - began < 20.0  # and not the 60 seconds of the call
        yield process


@pytest.mark.parametrize(
    ("server", "call"),
    [
        *(("owner", "receive"), ("owner", "read"), ("guest", "receive_many"), ("guest", "iterate")),
        *nightly(("owner", "receive_many"), ("owner", "iterate"), ("guest", "receive"), ("guest", "read")),
    ],
    indirect=["server"],
)
def test_ctrl_c_ends_a_wait(path: Path, server: subprocess.Popen[str] | None, call: str) -> None:
    """Ctrl-C at once ends any wait for messages, and the program can close as usual."""
    with interrupted(path, CALLS[call]) as process:
        assert process.wait(10) == 0


@pytest.mark.parametrize("call", ["submit", *nightly("send", "topics")])
def test_ctrl_c_ends_a_wait_for_an_owner_that_stands_still(path: Path, call: str) -> None:
    """Ctrl-C also ends a wait for the answer of a suspended owner."""
    with serving(path) as server, interrupted(path, CALLS_OF_A_GUEST[call], server) as process:
        server.send_signal(signal.SIGCONT)
        assert process.wait(30) == 0


@contextmanager
def held(path: Path) -> Iterator[Ownership]:
    """This process owns a store, and does not open it."""
    ownership = Ownership(path)
    yield ownership
    ownership.release()


def test_ctrl_c_ends_a_command(path: Path) -> None:
    """A command that waits for an unresponsive owner exits with 130 on Ctrl-C, without a traceback."""
    mqplug.connect("rocksmq", path=str(path)).close()
    address = Path(os.environ["XDG_RUNTIME_DIR"], "mute.sock")
    with socket.socket(socket.AF_UNIX) as mute, held(path) as ownership:
        mute.bind(str(address))
        mute.listen()
        mute.settimeout(30)
        ownership.announce(address)
        command = [sys.executable, "-m", "mqplug_cli", "topics", f"rocksmq://{path}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            connection, _ = mute.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=20)
    address.unlink()
    assert (process.returncode, said[1].strip()) == (130, "")


@pytest.mark.parametrize("times", [1, *nightly(4)])
def test_serve_hears_a_signal_in_any_thread(path: Path, times: int) -> None:
    """``serve`` ends on SIGTERM even among other signals, when another thread receives it."""
    for _ in range(times):
        with serving(path) as server:
            freeze(server)
            server.send_signal(signal.SIGTERM)
            server.send_signal(signal.SIGCONT)
            assert server.wait(20) == 0
