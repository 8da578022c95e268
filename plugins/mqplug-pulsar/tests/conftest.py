"""One broker for each worker, as tests stop and freeze it, and a client with a topic of its own for each test."""

from __future__ import annotations

import itertools
import json
import os
from urllib.request import ProxyHandler, Request, build_opener

import pytest

import mqplug
from mqplug_devbrokers import PulsarSecurity, PulsarServer
from mqplug_devbrokers.pytest_plugin import started

_numbers = itertools.count()


class Rest:
    """The broker's admin interface, for what tests do behind mqplug's back."""

    def __init__(self, admin_url):
        self._url = f"{admin_url}/admin/v2"
        self._opener = build_opener(ProxyHandler({}))

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}/{path}", data, {"Content-Type": "application/json"}, method=method)
        with self._opener.open(request, timeout=30) as response:
            answer = response.read()
        return json.loads(answer) if answer else None

    def expire(self, topic, before):
        """End the time that is given to groups for what lies before a position, as the broker does before it trims."""
        ledger, entry, _ = before.coordinates
        number = before.log.partition if self.partitioned(topic) else -1
        last = {"ledgerId": ledger, "entryId": entry - 1, "partitionIndex": number}
        path = self.path(self.log(topic, before.log.partition))
        for group in self.cursors(topic, before.log.partition):
            self.ask("POST", f"{path}/subscription/{group}/expireMessages", last)

    def enforce(self, topic, partition=0):
        """Have the retention looked after now."""
        self.ask("POST", f"{self.path(self.log(topic, partition))}/trim")

    def cursors(self, topic, partition=0):
        """The subscriptions of a partition."""
        return self.ask("GET", f"{self.path(self.log(topic, partition))}/internalStats")["cursors"]

    def partitioned(self, topic):
        """Whether a topic has partitions."""
        return self.ask("GET", f"{self.path(topic)}/partitions")["partitions"] > 0

    def log(self, topic, partition):
        """The topic that holds the messages of a partition: the topic itself, if it has none."""
        return f"{topic}-partition-{partition}" if self.partitioned(topic) else topic

    def path(self, topic):
        return f"persistent/public/default/{topic}"


@pytest.fixture(scope="session")
def pulsar_server():
    """A running broker."""
    with started(PulsarServer) as server:
        yield server


@pytest.fixture(scope="session")
def secured():
    """Addresses, credentials and rights of a broker where each role may do only what it was allowed.

    It checks every second whether the tokens of its clients have expired, and takes messages of up to 2 MiB.
    """
    settings = {"authenticationRefreshCheckSeconds": "1", "maxMessageSize": str(2 * 1024 * 1024)}
    with started(lambda: PulsarServer(security=PulsarSecurity(authorize=True), settings=settings)) as server:
        yield server.secured


@pytest.fixture(scope="session")
def rest(pulsar_server):
    return Rest(pulsar_server.admin_url)


@pytest.fixture
def mq(pulsar_server):
    with mqplug.connect(pulsar_server.url) as client:
        yield client


@pytest.fixture
def plain(pulsar_server):
    """A client without the admin interface."""
    with mqplug.connect(pulsar_server.service_url + "?cluster=standalone") as client:
        yield client


@pytest.fixture
def name():
    """A name that no other test has."""
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(mq, name):
    """A fresh topic of one partition."""
    mq.create_topic(name)
    return name


@pytest.fixture
def connected(pulsar_server):
    """Connects with other settings."""
    clients = []

    def connect(**settings):
        clients.append(
            mqplug.connect("pulsar", service_url=pulsar_server.service_url, cluster="standalone", **settings)
        )
        return clients[-1]

    yield connect
    for client in clients:
        client.close()
