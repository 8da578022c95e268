"""Unexpected answers of Pulsar's admin interface, and of other servers at its address."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import attrs
import pytest

import mqplug
from mqplug.spi import AlterTopic, Capabilities, Deadline
from mqplug_pulsar import PulsarSettings
from mqplug_pulsar._admin import retention
from mqplug_pulsar._cluster import connection
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused
from mqplug_pulsar._cluster.credentials import Credentials


@contextmanager
def answering(answer, status=200):
    """Yield an admin interface that gives this answer to every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        settings = PulsarSettings(admin_url=f"http://127.0.0.1:{server.server_port}")
        try:
            yield AdminInterface(settings, Credentials(settings))
        finally:
            server.shutdown()


def test_statistics_that_are_an_error():
    """An error of the broker with status 200 is a ``ConnectError`` with its reason and without Java package names."""
    reason = "\n --- An unexpected error ---\n\nMessage: org.apache.X.ManagedLedgerException: Not enough bookies\n"
    with (
        answering({"reason": reason}) as admin,
        pytest.raises(mqplug.ConnectError, match="Not enough bookies") as caught,
    ):
        admin.stats("persistent://public/default/t", 5)
    assert isinstance(caught.value.__cause__, AdminRefused)
    assert "org.apache" not in str(caught.value)


JAVA = """
 --- An unexpected error occurred in the server ---

Message: org.apache.pulsar.metadata.api.MetadataStoreException$BadVersionException: Version mismatch

Stacktrace:

org.apache.bookkeeper.mledger.ManagedLedgerException: Version mismatch
\tat org.apache.pulsar.Some.method(Some.java:17)"""


@pytest.mark.parametrize("body", [JAVA.encode(), {"reason": JAVA}])
def test_no_java_trace(body):
    """An error of the admin interface is shown without its Java stack trace and package names."""
    with answering(body, 500) as admin, pytest.raises(AdminRefused) as caught:
        admin.get("clusters", 20)
    assert caught.value.reason == "BadVersionException: Version mismatch"


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (
            b"<html>not here</html>",
            404,
            r"no Pulsar admin interface answers at http://[^ ]*:\d+/admin/v2: HTTP 404",
        ),
        (b"<html>hello</html>", 200, "it answers with something other than JSON"),
        ({"status": "ok"}, 200, "the answer is not from Pulsar"),
    ],
    ids=["not-found", "a-page", "other-json"],
)
def test_another_http_server(pulsar_server, answer, status, said):
    """An HTTP server that is not Pulsar's is a ``ConnectError`` that says so, whatever the server answers."""
    with answering(answer, status) as admin, pytest.raises(mqplug.ConnectError, match=said):
        mqplug.connect("pulsar", service_url=pulsar_server.service_url, admin_url=admin._url)


def test_another_port_or_protocol(pulsar_server):
    """The broker's own port in ``admin_url=``, or https where the port speaks http, is an error with the fix."""
    wrong = {
        pulsar_server.service_url.replace("pulsar:", "http:"): "not its own",
        pulsar_server.admin_url.replace("http:", "https:"): "Write http://",
    }
    for url, cure in wrong.items():
        with pytest.raises(mqplug.ConnectError, match=cure):
            mqplug.connect("pulsar", service_url=pulsar_server.service_url, admin_url=url)


def test_the_path_of_the_interface_may_be_given(pulsar_server):
    """``admin_url=`` may end with ``/admin/v2/``, the path that all requests begin with."""
    url = f"{pulsar_server.admin_url}/admin/v2/"
    with mqplug.connect("pulsar", service_url=pulsar_server.service_url, admin_url=url) as client:
        client.topics()


def test_another_name_for_the_cluster_is_warned_of(caplog):
    """A ``cluster=`` other than the cluster's own name is used, and logged unless the own name is ``standalone``."""
    for name, warned in (("east", True), ("west", False), ("standalone", False)):
        caplog.clear()
        with answering({"clusterName": name}) as admin:
            facts = connection._ask_cluster(PulsarSettings(cluster="west"), admin, Capabilities(), Deadline(5))
        assert facts.cluster == "west"
        assert ("cluster=west replaces" in caplog.text) == warned


def test_an_id_of_another_cluster_is_told(pulsar_server, mq, topic):
    """An id from a topic of the same name in another cluster is refused with the names of both clusters."""
    with mq.producer(topic) as out:
        sent = out.send(b"x")
    with (
        mqplug.connect(f"{pulsar_server.url}&cluster=west") as west,
        pytest.raises(mqplug.InvalidMessageId, match=r"of the pulsar cluster 'standalone'; .* connected to 'west'"),
    ):
        west.consumer(topic, start=mqplug.after(sent))


@pytest.mark.parametrize("name", ["__change_events", "persistent://public/default/__change_events-partition-0"])
def test_topics_of_the_brokers_are_refused(mq, name):
    """The topics in which brokers keep their own events cannot be opened; others may begin with underscores."""
    with pytest.raises(mqplug.InvalidName, match="one of Pulsar's system topics"):
        mq.producer(name).send(b"x")


@pytest.mark.disturbs  # the contract lists the topics of the other server
def test_a_topic_may_begin_with_underscores(mq, name):
    """A topic that only looks like one of Pulsar's own is created and listed."""
    mq.create_topic(f"__{name}")
    assert f"__{name}" in mq.topics()


@attrs.define
class ForgetfulAdmin:
    """An admin interface whose broker loses the first change."""

    policy: object = None
    posts: int = 0

    def post(self, path, body, timeout):
        self.posts += 1
        if self.posts > 1:
            self.policy = body

    def get(self, path, timeout):
        return self.policy if path.startswith("t/retention") else None


def test_a_change_that_another_client_undid_is_made_again(monkeypatch):
    """A change that the broker lost is sent again: of two concurrent changes, the broker may keep only one."""
    monkeypatch.setattr(retention, "POLICY_REPEAT_S", 0.05)
    admin = ForgetfulAdmin()
    policy = retention._kept(3600, None)
    retention._put_in_force(admin, "t", [policy], Deadline(20))
    assert (admin.posts, admin.policy) == (2, policy.body)
    with pytest.raises(mqplug.Timeout):
        retention.change_retention(ForgetfulAdmin(posts=-1000), "t", AlterTopic("t", 60.0), Deadline(0.2))
