"""A stock ``milvus.yaml`` connects to a real Pulsar, whatever answers at its ``webport``."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import mqplug
from mqplug_cli import main

pytest.importorskip("click")
pytest.importorskip("yaml")

STOCK = """
etcd: {{endpoints: "localhost:2379"}}
mq: {{type: default}}
pulsar:
  address: {host}
  port: {port}
  webport: {webport}
  maxMessageSize: 2097152
  tenant: public
  namespace: default
  requestTimeout: 60
  enableClientMetrics: false
  authPlugin:
  authParams:
kafka: {{brokerList: , saslUsername: , saslPassword: }}
"""


class NoPulsar(BaseHTTPRequestHandler):
    """Requests to a web server that is not Pulsar's: all get the same answer."""

    answer = (404, b"<html>not here</html>")

    def do_GET(self):
        status, body = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def web_server(status, body):
    """Yield the port of a web server that gives every request this answer."""
    handler = type("Handler", (NoPulsar,), {"answer": (status, body)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def silent():
    """Yield a port that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def refused():
    """Yield a port on which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    yield port


@pytest.fixture
def milvus(pulsar_server, tmp_path):
    """A function that writes the stock file with another ``webport``."""

    def write(webport):
        path = tmp_path / "milvus.yaml"
        path.write_text(STOCK.format(host="127.0.0.1", port=pulsar_server.port, webport=webport))
        return path

    return write


def there_and_back(client, topic):
    """Send a message and receive it in a group."""
    with client.producer(topic) as out, client.consumer(topic, group="datanode") as reader:
        sent = out.send(b"insert 1", key=b"7")
        message = reader.receive(30)
        assert (message.id, message.key, message.value) == (sent, b"7", b"insert 1")
        reader.ack(message)
        reader.commit()


def test_the_admin_interface_is_used_where_it_is(milvus, pulsar_server, name, caplog):
    """With Pulsar's admin interface at ``webport``, topics can be created, and no warning is logged."""
    with mqplug.connect(milvus(pulsar_server.admin_url.rpartition(":")[2]), mode="cluster") as client:
        client.create_topic(name)
        there_and_back(client, name)
        assert client.lag(name, group="datanode") == {0: 0}
        assert client.capabilities.message_max_bytes == 2097152
    assert not caplog.records


@pytest.mark.parametrize(
    ("web", "why"),
    [
        (lambda: web_server(404, b"<html>not here</html>"), "HTTP 404"),
        (lambda: web_server(200, b"<html>hello</html>"), "no usable answer"),
        (lambda: web_server(200, b'{"hello": 1}'), "the answer is not from Pulsar"),
        (lambda: web_server(401, b"who are you?"), "requires credentials"),
        (refused, "no usable answer"),
        (silent, "did not answer in time"),
    ],
    ids=["404", "a page", "JSON", "401", "refused", "silent"],
)
def test_without_it_messages_come_and_go_all_the_same(milvus, topic, caplog, web, why):
    """Without an admin interface at ``webport``, messages are sent and received, and one warning says why."""
    with web() as port, mqplug.connect(milvus(port), mode="cluster") as client:
        there_and_back(client, topic)
        with pytest.raises(mqplug.Error, match="admin"):
            client.create_topic("other")
    (record,) = caplog.records
    assert why in record.getMessage()
    assert f"http://127.0.0.1:{port}" in record.getMessage()


def test_the_doctor_says_so(milvus, capsys, monkeypatch):
    """The doctor warns that no admin interface answers at ``webport``, and still exits with status 0."""
    with refused() as port:
        monkeypatch.setenv("MQPLUG_MODE", "cluster")
        monkeypatch.setattr("sys.argv", ["mqplug", "doctor", "--config", str(milvus(port)), "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
    told = json.loads(capsys.readouterr().out)
    assert told["connects"]
    assert f"no Pulsar admin interface at admin_url http://127.0.0.1:{port}" in told["warnings"][0]
    left = {each["key"]: each["reason"] for each in told["left_alone"]}
    assert {"etcd", "pulsar.requestTimeout", "pulsar.enableClientMetrics"} <= left.keys()


def test_an_admin_interface_that_was_asked_for_is_needed(pulsar_server):
    """An ``admin_url=`` at which no Pulsar answers is a ``ConnectError``, unlike the ``webport`` of ``milvus.yaml``."""
    with refused() as port, pytest.raises(mqplug.ConnectError, match="admin"):
        mqplug.connect(f"{pulsar_server.service_url}?admin_url=http://127.0.0.1:{port}", timeout=10)
