"""Clients, and a topic for each test, on the servers of the run: see tests/helpers/run_servers.py."""

from __future__ import annotations

import itertools
import os

import pytest
from pulsar_rest import Rest

import mqplug

_numbers = itertools.count()


@pytest.fixture(scope="session")
def secured(secured_pulsar):
    """Addresses, credentials and rights of ``secured_pulsar``."""
    return secured_pulsar.secured


@pytest.fixture
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
    """A name that no other test uses."""
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(mq, name):
    """A fresh topic of one partition."""
    mq.create_topic(name)
    return name


@pytest.fixture
def connected(pulsar_server):
    """A function that connects with other settings."""
    clients = []

    def connect(**settings):
        clients.append(
            mqplug.connect("pulsar", service_url=pulsar_server.service_url, cluster="standalone", **settings)
        )
        return clients[-1]

    yield connect
    for client in clients:
        client.close()
