"""A broker that is starting, and knows of no broker of its cluster yet: the native client must not end the process."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
import threading

import pytest
from kafka_driver import free_ports

API_VERSIONS, METADATA = 18, 3
UNSUPPORTED_VERSION = 35

ASKS = """
import sys, mqplug
for _ in range(2):
    try:
        with mqplug.connect(sys.argv[1], timeout=2) as client:
            client.health(timeout=2)
    except (mqplug.ConnectError, mqplug.Timeout) as error:
        print(error.retryable)
"""


KNOWN_FOR = 2  # answers


class StartingBroker:
    """Answers as a broker does that was restarted: its metadata name itself first, and then no broker, and no topic."""

    def __init__(self, port):
        self.asked = 0
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._tasks = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", port))

    def _run(self, step):
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(20)

    def close(self):
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    async def _end(self):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                key, version, number = struct.unpack_from(">hhi", await reader.readexactly(size))
                answer = struct.pack(">i", number) + self._answer(key, version)
                writer.write(struct.pack(">i", len(answer)) + answer)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    def _answer(self, key, version):
        if key == API_VERSIONS:
            apis = [(API_VERSIONS, 0, 0), (METADATA, 0, 8)]
            error = 0 if version == 0 else UNSUPPORTED_VERSION
            return struct.pack(">hi", error, len(apis)) + b"".join(struct.pack(">hhh", *each) for each in apis)
        self.asked += 1
        rights = struct.pack(">i", -(2**31)) if version >= 8 else b""
        throttled = struct.pack(">i", 0) if version >= 3 else b""
        if self.asked > KNOWN_FOR:
            return throttled + struct.pack(">ihii", 0, -1, -1, 0) + rights
        itself = struct.pack(">ii", 1, 1) + _text("127.0.0.1") + struct.pack(">ih", self._port, -1)
        return throttled + itself + _text("cluster") + struct.pack(">ii", 1, 0) + rights


def _text(text):
    return struct.pack(">h", len(text)) + text.encode()


@pytest.fixture
def starting():
    """A broker that knows of no broker yet, and its URL."""
    (port,) = free_ports(1)
    broker = StartingBroker(port)
    yield broker, f"kafka://127.0.0.1:{port}"
    broker.close()


def test_a_broker_that_knows_of_no_broker_ends_nobody(starting):
    """While a restarted broker knows of no broker yet, a call fails with a retryable error, and the process lives."""
    broker, url = starting
    done = subprocess.run([sys.executable, "-c", ASKS, url], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\nTrue\n"
    assert broker.asked > KNOWN_FOR
