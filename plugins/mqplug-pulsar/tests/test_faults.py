"""Unreachable, silent, foreign and killed peers: every call ends in time, and no acknowledged message is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import mqplug
from mqplug import EARLIEST


@contextmanager
def peer(answer):
    """Yield the URL of a server on loopback that sends these bytes to each connection, and then nothing."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def serve():
            open_ones = []
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                open_ones.append(connection)
                connection.sendall(answer)
            for each in open_ones:
                each.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"pulsar://127.0.0.1:{server.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def free_port():
    """Return a port on which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_refused():
    """A port on which no server listens is a ``ConnectError`` at once."""
    began = time.monotonic()
    with pytest.raises(mqplug.ConnectError) as caught:
        mqplug.connect(f"pulsar://127.0.0.1:{free_port()}", timeout=60)
    assert time.monotonic() - began < 30
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\5\xff\xff\xff\xff\xff"])
def test_not_a_broker(answer):
    """A peer that is silent or speaks another protocol is a ``ConnectError`` soon after the timeout."""
    began = time.monotonic()
    with peer(answer) as url, pytest.raises(mqplug.ConnectError):
        mqplug.connect(url, timeout=1.5)
    assert time.monotonic() - began < 20


@contextmanager
def admin_that_answers(status):
    """Yield the URL of an HTTP server that answers every request with this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_refused_credentials(pulsar_server):
    """A token that the admin interface refuses is an ``AuthError`` that does not show the token."""
    with admin_that_answers(401) as url, pytest.raises(mqplug.AuthError) as caught:
        mqplug.connect("pulsar", service_url=pulsar_server.service_url, admin_url=url, token="s3cret")
    assert "s3cret" not in str(caught.value)


def test_admin_unreachable(pulsar_server):
    """An admin interface that cannot be reached is a ``ConnectError`` that names the admin interface."""
    with pytest.raises(mqplug.ConnectError, match="admin"):
        mqplug.connect(f"{pulsar_server.service_url}?admin_url=http://127.0.0.1:{free_port()}", timeout=5)


PROGRAM = """
import sys, mqplug
mq = mqplug.connect(sys.argv[1])
with mq.producer(sys.argv[2]) as out:
    out.send(b"x")
with mq.consumer(sys.argv[2], group="g") as member:
    member.ack(member.receive(20))
list(mq.read(sys.argv[2]))
{end}
"""


def run(server, topic, end):
    """Run the program in a separate process."""
    program = PROGRAM.format(end=end)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, server.url, topic], capture_output=True, timeout=60, check=False
    )


def test_silent(pulsar_server, topic):
    """A program that uses mqplug exits with status 0 and writes nothing to its outputs."""
    done = run(pulsar_server, topic, "mq.close()")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_interrupt(pulsar_server, topic):
    """Ctrl-C ends a waiting receive at once."""
    program = (
        "import sys, mqplug\n"
        "with mqplug.connect(sys.argv[1]) as mq, mq.consumer(sys.argv[2], start=mqplug.EARLIEST) as c:\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        c.receive()\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, pulsar_server.url, topic], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(20) == 0


def test_deleted_under_a_reader(mq, topic):
    """A reader whose topic is deleted raises ``TopicNotFound``."""
    with mq.consumer(topic, start=EARLIEST) as reader:
        mq.delete_topic(topic)
        with pytest.raises(mqplug.TopicNotFound):
            reader.receive(30)


@pytest.mark.night
@pytest.mark.disturbs
@pytest.mark.timeout(300)
def test_kill_in_a_stream(mq, topic, pulsar_server):
    """After a kill in mid-stream all acknowledged messages are stored in order, and the clients keep working."""
    with mq.producer(topic) as out, mq.consumer(topic, start=EARLIEST) as reader:
        handles = [out.submit(b"%d" % number) for number in range(3000)]
        handles[500].result(30)
        pulsar_server.kill()
        handles += [out.submit(b"%d" % number) for number in range(3000, 3500)]
        pulsar_server.start()
        stored = {}
        for number, handle in enumerate(handles):
            with suppress(mqplug.OutcomeUnknown):
                stored[handle.result(60)] = b"%d" % number
        assert len(stored) > 500
        sent = out.send(b"end")
        found = {}
        while sent not in found:
            message = reader.receive(30)
            assert message is not None
            found[message.id] = message.value
    assert {each: found.get(each) for each in stored} == stored
    assert list(found) == sorted(found)


@pytest.mark.night
@pytest.mark.disturbs
@pytest.mark.timeout(300)
def test_close_without_a_broker(pulsar_server, topic):
    """A client whose broker is gone closes in time and raises ``CloseIncomplete``."""
    client = mqplug.connect(pulsar_server.url)
    out = client.producer(topic)
    out.send(b"x")
    pulsar_server.kill()
    try:
        out.submit(b"y")
        began = time.monotonic()
        with pytest.raises(mqplug.CloseIncomplete):
            client.close(2)
        assert time.monotonic() - began < 25
    finally:
        pulsar_server.start()


def test_json_of_an_admin_error(mq):
    """An error of the admin interface is shown as a reason, not as an HTML page."""
    with pytest.raises(mqplug.TopicNotFound) as caught:
        mq.delete_topic("never-made")
    assert "<html" not in str(caught.value)
    assert json.dumps(str(caught.value))
