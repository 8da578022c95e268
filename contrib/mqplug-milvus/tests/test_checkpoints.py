"""Milvus' own places in its topics."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

import mqplug
import mqplug_milvus
from mqplug import Log, Position

SHARD = "by-dev-rootcoord-dml_0_470773793412874593v0"
KEY = f"by-dev/meta/datacoord-meta/channel-cp/{SHARD}"
STORED = b"\x0a\x16by-dev-rootcoord-dml_0\x12\x08\xb7\x00\x00\x00\x00\x00\x00\x00\x20\xe4\xf0\xb5\x05"


class Gateway(BaseHTTPRequestHandler):
    """Answers as etcd's JSON gateway does, with one key."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        start, end = (base64.b64decode(asked[name]) for name in ("key", "range_end"))
        keys = [{"key": base64.b64encode(KEY.encode()).decode(), "value": base64.b64encode(STORED).decode()}]
        body = json.dumps({"kvs": [each for each in keys if start <= KEY.encode() < end]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def etcd():
    """The address of an etcd."""
    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_checkpoints_are_read(etcd):
    """Each shard's checkpoint has its topic, its place and its time stamp; of other clusters' roots there is none."""
    (checkpoint,) = mqplug_milvus.checkpoints(etcd).values()
    assert (checkpoint.shard, checkpoint.topic) == (SHARD, "by-dev-rootcoord-dml_0")
    assert checkpoint.place == (183).to_bytes(8, "little")
    assert checkpoint.time == 11368548
    assert mqplug_milvus.checkpoints(etcd, root="other") == {}


def test_no_etcd():
    """Where no etcd answers, and for what is no address, the error says so."""
    with pytest.raises(mqplug.ConnectError, match="no etcd answers"):
        mqplug_milvus.checkpoints("http://127.0.0.1:1")
    with pytest.raises(mqplug.ConfigError, match="no address of etcd"):
        mqplug_milvus.checkpoints("127.0.0.1:2379")


@pytest.mark.parametrize(
    ("backend", "coordinates", "place"),
    [
        ("kafka", (183,), bytes.fromhex("b700000000000000")),
        ("pulsar", (5, 135, 0), bytes.fromhex("080510870118002000")),
        ("pulsar", (5, 135, 7), bytes.fromhex("080510870118002007")),
    ],
)
def test_places_of_positions(backend, coordinates, place):
    """A position in Milvus' own form is what Milvus stores itself."""
    assert mqplug_milvus.place(Position(Log(backend, "c", "t", 0), coordinates)) == place


def test_a_queue_without_places():
    """Positions of a backend that Milvus does not know have no such form."""
    with mqplug.connect("memory") as mq:
        mq.create_topic("t")
        with pytest.raises(mqplug.Unsupported, match="keeps no places in memory"):
            mqplug_milvus.position(mq, "t", bytes(8))
        with pytest.raises(mqplug.Unsupported, match="keeps no places in memory"):
            mqplug_milvus.place(mq.resolve("t", mqplug.EARLIEST)[0])
