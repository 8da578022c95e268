"""Servers that a harness starts, kills and pauses, and their ports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mqplug
from mqplug_testing import Harness, Proxy, ServerProcess, free_port
from mqplug_testing._harness import server_process
from mqplug_testing._harness.server_process import FIRST_PORT, LAST_PORT

PATIENCE = 20.0

COUNTS = """
import socket, sys
count = 0
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    print("ready", flush=True)
    while True:
        client, _ = server.accept()
        with client:
            while client.recv(1):
                count += 1
                client.sendall(b"%d " % count)
"""
"""A server that answers each byte with the number of bytes that it got."""

STAYS = (
    "import signal, time; signal.signal(signal.SIGTERM, lambda *_: None); print('ready', flush=True); time.sleep(99)"
)
WATCHES = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def server():
    """A running server that counts."""
    port = free_port()
    with ServerProcess([sys.executable, "-c", COUNTS, str(port)], port=port) as server:
        yield server


def asked(port):
    """Return the server's answer."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(b"x")
        return int(client.recv(10))


def test_it_is_ready_when_it_listens(server):
    """After start it answers at once; starting a running server does nothing."""
    assert asked(server.port) == 1
    server.start()
    assert asked(server.port) == 2


def test_it_is_killed_and_started_again(server):
    """A kill ends it at once, even with clients; the next start is another process at the same port."""
    before = server.pid
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"x")
        assert client.recv(10) == b"1 "
        server.kill()
        assert client.recv(1) == b""
    assert not server.running
    server.start()
    assert server.pid != before
    assert asked(server.port) == 1


def test_a_paused_server_stands_still(server):
    """After pause nothing is answered; after unpause every request is."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        server.pause()
        assert server.running
        client.sendall(b"x")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        server.unpause()
        client.settimeout(PATIENCE)
        assert client.recv(10) == b"1 "


def test_a_paused_server_can_be_killed_and_stopped(server):
    """A paused server is gone when kill or stop returns."""
    for end in (server.kill, server.stop):
        server.pause()
        end()
        assert not server.running
        server.start()


def test_restart_is_another_process(server):
    """A restart stops the process and starts another."""
    before = server.pid
    server.restart()
    assert server.pid != before


def test_one_that_does_not_obey_is_killed(monkeypatch):
    """``stop`` kills a process that ignores SIGTERM."""
    monkeypatch.setattr("mqplug_testing._harness.server_process.STOP_S", 0.2)
    with ServerProcess([sys.executable, "-c", STAYS], says="ready") as server:
        server.stop()
        assert not server.running


def test_its_children_go_with_it():
    """A process that a script starts is killed with the script."""
    port = free_port()
    with ServerProcess(["sh", "-c", f"'{sys.executable}' -c '{COUNTS}' {port}; true"], port=port) as server:
        assert asked(port) == 1
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), PATIENCE)


def test_what_it_prints_is_kept():
    """``says`` waits for a text; ``output`` has everything since the last start."""
    program = "import sys; print('a', flush=True); print('up', file=sys.stderr, flush=True); sys.stdin.read()"
    with ServerProcess([sys.executable, "-c", program], says="up") as server:
        assert server.output == "a\nup\n"
        server.restart()
        assert server.output == "a\nup\n"


@pytest.mark.parametrize(
    ("program", "words"),
    [("raise SystemExit('no such disk')", "ended with status 1.*no such disk"), (STAYS, "was not ready within 0.5 s")],
    ids=["ended", "silent"],
)
def test_one_that_does_not_come_up_says_why(program, words):
    """The error has the server's output, and the command to try; nothing is left running."""
    server = ServerProcess([sys.executable, "-c", program], says="never", timeout=0.5 if program is STAYS else 60)
    with pytest.raises(mqplug.ConnectError, match=f"(?s){words}") as caught, server:
        pass
    assert sys.executable in caught.value.fix
    assert not server.running


def test_before_the_start_it_has_no_number():
    """Reading the pid before the start raises an error that says so."""
    server = ServerProcess(["true"])
    with pytest.raises(mqplug.ConnectError, match="not started"):
        _ = server.pid
    server.kill()
    server.close()


def test_a_server_that_watches_its_input_ends_with_whoever_started_it():
    """However the tests end, their end closes the server's standard input."""
    program = f"""
import os, signal, sys
from mqplug_testing import ServerProcess
with ServerProcess([sys.executable, "-c", {WATCHES!r}], says="ready") as server:
    print(server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    end = time.monotonic() + PATIENCE
    while is_alive(int(done.stdout)):
        assert time.monotonic() < end
        time.sleep(0.01)


def is_alive(pid):
    """Return whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_their_hooks_are_those_of_a_harness(server):
    """The hooks of a server and of a proxy can be passed to a harness."""
    with Proxy(server.port) as proxy:
        harness = Harness(connect=lambda: mqplug.connect("memory"), **server.hooks(), **proxy.hooks())
        assert harness.cut_network == proxy.cut
        assert harness.pause == server.pause
        assert asked(proxy.port) == 1


def test_a_free_port_is_one_that_nobody_gets_by_chance():
    """A free port lies below the kernel's ports for outgoing connections, and can be listened at."""
    port = free_port()
    assert FIRST_PORT <= port <= LAST_PORT
    with socket.create_server(("127.0.0.1", port)):
        assert os.getpid()


def test_a_free_port_is_given_once(monkeypatch):
    """Two servers that have not started yet get different ports."""
    first, second = free_port(), free_port()
    monkeypatch.setattr(server_process, "_given_ports", {first})
    monkeypatch.setattr(server_process.random.SystemRandom, "sample", lambda *_: [first, second])
    assert free_port() == second
