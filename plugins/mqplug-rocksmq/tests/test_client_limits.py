"""Limits of all client processes together at their owner: memory and connections."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from rocksmq_stores import eventually, freeze, line, nightly, python
from store_seam import PROTOCOL, pack_frame, read_owner

import mqplug
from mqplug_rocksmq._processes import server
from mqplug_rocksmq._processes.owner_services import MemoryAllowance

# the allowance -------------------------------------------------------------------------------------------


def taken_by_a_thread(allowance: MemoryAllowance, size: int) -> threading.Thread:
    """Take from another thread, and return once that is done or waits."""
    thread = threading.Thread(target=allowance.take, args=(size,))
    thread.start()
    eventually(lambda: not thread.is_alive() or allowance._queue)
    return thread


def test_first_come_first_served() -> None:
    """A large request is not overtaken by small ones, and is served once enough was given back."""
    allowance = MemoryAllowance(100)
    assert allowance.take(60) == 60
    large = taken_by_a_thread(allowance, 50)
    small = threading.Thread(target=allowance.take, args=(10,))
    small.start()
    eventually(lambda: len(allowance._queue) == 2)
    allowance.give_back(60)
    large.join(10)
    small.join(10)
    assert allowance.used == 60


def test_what_is_larger_than_all_goes_alone() -> None:
    """A request of any size is served once no other is in progress."""
    allowance = MemoryAllowance(100)
    allowance.take(1)
    huge = taken_by_a_thread(allowance, 1000)
    assert huge.is_alive()
    allowance.give_back(1)
    huge.join(10)
    assert allowance.used == 100


def test_nobody_waits_for_a_server_that_closes() -> None:
    """Closing the allowance serves all waiting requests."""
    allowance = MemoryAllowance(100)
    allowance.take(100)
    waiting = taken_by_a_thread(allowance, 100)
    allowance.close()
    waiting.join(10)
    assert not waiting.is_alive()


# memory --------------------------------------------------------------------------------------------------

OWNER = """
from rocksmq_stores import native
mq = mqplug.connect("rocksmq", path=str(path), sync="os", clients_max_bytes=int(sys.argv[2]), memory_max_bytes=64 << 20)
mq.create_topic("orders")
lock = native(mq).engine.lock

def most():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))

print(most(), flush=True)
with lock:  # nothing can be stored
    print("held", flush=True)
    sys.stdin.readline()
sys.stdin.readline()
print(most(), flush=True)
sys.stdin.readline()
mq.close()
"""

ONE_BY_ONE = """
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders", queue_bytes=40_000_000) as out:
    handles = []
    try:
        while True:
            handles.append(out.submit(bytes(100_000), timeout=2))
    except mqplug.QueueFull:
        print("QueueFull", flush=True)
    out.flush(timeout=100)
    print(sum(handle.error is None for handle in handles), flush=True)
"""

TOGETHER = """
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders") as out:
    print("QueueFull", flush=True)
    print(sum(len(out.send_many([bytes(100_000)] * 100, timeout=100)) for _ in range(4)), flush=True)
"""

SENDERS = {"one by one": ONE_BY_ONE, "together": TOGETHER}
BOUND = 64 << 20
MARGIN = 150  # MiB: RocksDB's memory, which has its own limit, and freed memory that is not given back yet


@pytest.mark.timeout(240)
@pytest.mark.parametrize("way", ["one by one", *nightly("together")])
def test_six_guests_that_send_as_fast_as_they_can(path: Path, way: str) -> None:
    """While nothing can be stored, client processes wait, then get ``QueueFull``; the owner's memory stays limited."""
    with python(OWNER, path, BOUND) as owner, ExitStack() as guests:
        before = int(line(owner))
        assert line(owner) == "held"
        senders = [guests.enter_context(python(SENDERS[way], path)) for _ in range(6)]
        assert [line(each) for each in senders] == ["QueueFull"] * 6
        say(owner)
        stored = sum(int(line(each)) for each in senders)
        say(owner)
        grown = int(line(owner)) - before
        assert stored >= 6 * 400
        assert grown < (BOUND >> 20) + MARGIN, f"{grown} MiB"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            assert mq.watermarks("orders")[0].count == stored
        say(owner)
        assert owner.wait(30) == 0


def say(process: subprocess.Popen[str]) -> None:
    """Let a process continue."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@contextmanager
def owned_with(path: Path, **settings: int) -> Iterator[mqplug.Client]:
    """A store of this process, with a topic."""
    with mqplug.connect("rocksmq", path=str(path), sync="os", **settings) as mq:
        mq.create_topic("orders")
        yield mq


SENDS_ONCE = """
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders") as out:
    print(len(out.send_many([bytes(100_000)] * 100, timeout=60)), flush=True)
"""


def test_a_guest_that_stops_in_the_midst_of_a_request(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client process that does not finish its request is disconnected, and the others continue."""
    monkeypatch.setattr(server, "STALLED_REQUEST_S", 1.0)
    with (
        owned_with(path, clients_max_bytes=16 << 20),
        half_a_request(path) as stalled,
        python(SENDS_ONCE, path) as out,
    ):
        assert line(out) == "100"
        stalled.settimeout(10)
        while stalled.recv(1000):
            """Skip its earlier output."""


@contextmanager
def half_a_request(path: Path) -> Iterator[socket.socket]:
    """A connection that has sent the first half of a request that takes all the memory."""
    owner = read_owner(path)
    assert owner is not None
    with socket.socket(socket.AF_UNIX) as stalled:
        stalled.connect(str(owner.socket))
        stalled.sendall(pack_frame({"call": "hello", "protocol": PROTOCOL}))
        request = pack_frame({"call": "produce"}, bytes(20 << 20))
        stalled.sendall(request[: len(request) // 2])
        yield stalled


READER = """
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.consumer("orders", start=mqplug.EARLIEST) as reader:
    print(len(reader.receive_many(1, 30)), flush=True)
    for batch in reader.batches():
        pass
"""


def test_readers_that_stop_reading(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Client processes that do not read their answers delay the others only for the allowed time."""
    monkeypatch.setattr(server, "SEND_ANSWER_S", 1.0)
    with (
        owned_with(path, clients_max_bytes=16 << 20, message_max_bytes=8_000_000) as mq,
        ExitStack() as guests,
    ):
        with mq.producer("orders") as out:
            out.send_many([bytes(7_000_000)] * 12)
        readers = [guests.enter_context(python(READER, path)) for _ in range(4)]
        for reader in readers:
            freeze(reader)
        with python(
            READER.replace("    for", "    assert len(reader.receive_many(1, 60)) == 1\n    for"), path
        ) as other:
            assert line(other) == "1"


# connections ---------------------------------------------------------------------------------------------


def test_too_many_guests(path: Path) -> None:
    """A connection above the limit is a typed error that names the setting; existing connections continue."""
    code = """
with mqplug.connect("rocksmq", path=str(path), timeout=30) as mq:
    producers = []
    try:
        while True:
            producers.append(mq.producer("orders"))
    except mqplug.Error as error:
        print(type(error).__mro__[1].__name__, "client_connections_max" in str(error), error.retryable, flush=True)
    producers[0].send(b"x")
    for producer in producers:
        producer.close()
    with mq.producer("orders") as out:
        out.send(b"y")
"""
    with owned_with(path, client_connections_max=5) as mq:
        with python(code, path) as guest:
            assert line(guest) == "ConnectError True True"
            assert guest.wait(30) == 0
        assert [message.value for message in mq.read("orders")] == [b"x", b"y"]


def test_a_process_too_many(path: Path) -> None:
    """A process that cannot even connect gets the error at once."""
    code = """
try:
    mqplug.connect("rocksmq", path=str(path), timeout=60)
except mqplug.ConnectError as error:
    print("client_connections_max" in str(error), flush=True)
"""
    with owned_with(path, client_connections_max=1), half_a_greeting(path):
        began = time.monotonic()
        with python(code, path) as guest:
            assert line(guest) == "True"
        assert time.monotonic() - began < 60


@contextmanager
def half_a_greeting(path: Path) -> Iterator[None]:
    """A connection that was greeted."""
    owner = read_owner(path)
    assert owner is not None
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(str(owner.socket))
        first.sendall(pack_frame({"call": "hello", "protocol": PROTOCOL}))
        assert first.recv(4) == b"MQF1"
        yield
