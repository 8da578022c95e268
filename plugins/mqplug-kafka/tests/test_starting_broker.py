"""A starting broker that knows of no broker in its cluster yet: librdkafka must not end the process."""

from __future__ import annotations

import socketserver
import struct
import subprocess
import sys
import threading

import pytest

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


class StartingBroker(socketserver.ThreadingTCPServer):
    """Answers like a restarted broker: its metadata first list itself, and then no broker and no topic."""

    daemon_threads = allow_reuse_address = True
    asked = 0

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Conversation)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, key, version):
        """Return the answer to a request."""
        if key == API_VERSIONS:
            apis = [(API_VERSIONS, 0, 0), (METADATA, 0, 8)]
            error = 0 if version == 0 else UNSUPPORTED_VERSION
            return struct.pack(">hi", error, len(apis)) + b"".join(struct.pack(">hhh", *each) for each in apis)
        self.asked += 1
        rights = struct.pack(">i", -(2**31)) if version >= 8 else b""
        throttled = struct.pack(">i", 0) if version >= 3 else b""
        if self.asked > KNOWN_FOR:
            return throttled + struct.pack(">ihii", 0, -1, -1, 0) + rights
        itself = struct.pack(">ii", 1, 1) + _text("127.0.0.1") + struct.pack(">ih", self.server_address[1], -1)
        return throttled + itself + _text("cluster") + struct.pack(">ii", 1, 0) + rights


class Conversation(socketserver.StreamRequestHandler):
    """A client's connection."""

    def handle(self):
        while size := self.rfile.read(4):
            key, version, number = struct.unpack_from(">hhi", self.rfile.read(*struct.unpack(">i", size)))
            answer = struct.pack(">i", number) + self.server.answer(key, version)
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


def _text(text):
    return struct.pack(">h", len(text)) + text.encode()


@pytest.fixture
def starting():
    """A broker that soon knows of no broker, and its URL."""
    with StartingBroker() as broker:
        yield broker, f"kafka://127.0.0.1:{broker.server_address[1]}"
        broker.shutdown()


def test_a_broker_that_knows_of_no_broker_ends_nobody(starting):
    """If a restarted broker knows of no broker yet, a call raises a retryable error and the process survives."""
    broker, url = starting
    done = subprocess.run([sys.executable, "-c", ASKS, url], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\nTrue\n"
    assert broker.asked > KNOWN_FOR
