"""The behaviour of ``produce`` and ``consume`` when the server dies during their work."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mqplug

MQPLUG = [sys.executable, "-m", "mqplug_cli"]
PIPE = subprocess.PIPE


@pytest.fixture
def server():
    """A Kafka for this test only, which kills it."""
    from mqplug_devbrokers import KafkaServer
    from mqplug_devbrokers.pytest_plugin import started

    with started(KafkaServer) as server:
        yield server


@pytest.mark.timeout(180)
def test_a_server_that_is_gone_ends_both_and_what_was_stored_is_said(server):
    """Produce reports what was stored, which line has no answer, and how many it did not send; both exit with 1."""
    with mqplug.connect(server.url) as mq:
        mq.create_topic("t")
    options = [server.url, "--timeout", "3"]
    produce = subprocess.Popen([*MQPLUG, "produce", *options, "t"], stdin=PIPE, stderr=PIPE)
    consume = subprocess.Popen(
        [*MQPLUG, "consume", *options, "t", "--follow", "--from", "earliest"], stdout=PIPE, stderr=PIPE
    )
    with produce, consume:
        try:
            produce.stdin.write(b"one\ntwo\n")
            produce.stdin.flush()
            assert [consume.stdout.readline() for _ in range(2)] == [b"one\n", b"two\n"]
            server.kill()
            produce.stdin.write(b"three\n")
            produce.stdin.flush()  # and the pipe stays open: produce must end by itself
            said = produce.stderr.read().decode().splitlines()
            assert produce.wait(60) == 1
            assert said[0].startswith("error: line 3: ")
            assert said[-1] == "stored 2 messages; 1 may or may not be stored: line 3"
            _, said = consume.communicate(timeout=60)
            assert (consume.returncode, said[:7]) == (1, b"error: ")
        finally:
            produce.kill()
            consume.kill()
