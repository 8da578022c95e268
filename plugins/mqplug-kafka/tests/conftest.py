"""A client and a topic for each test, on the servers of the run, which tests/helpers/run_servers.py starts.

The topics of a test are deleted after it: a broker with some hundred of them takes long to stop and to start.
"""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest
from kafka_driver import new_name, new_names

import mqplug
from mqplug_devbrokers import BrokerError, TokenServer
from mqplug_devbrokers._kafka_wire import KafkaWire
from mqplug_kafka._cluster.log_throttle import logger


@pytest.fixture(scope="session")
def secured(secured_kafka):
    """The secured listeners of ``secured_kafka``."""
    return secured_kafka.secured


@pytest.fixture(scope="session")
def tokens():
    """A token endpoint that knows the client alice."""
    with TokenServer({"alice": "s3cret"}) as server:
        yield server


@pytest.fixture(autouse=True)
def tidy(request):
    """Delete the topics of each test."""
    used = {"kafka_server", "disturbed_kafka", "secured_kafka"} & set(request.fixturenames)
    servers = [request.getfixturevalue(fixture) for fixture in used]
    new_names.clear()
    yield
    for server in servers if new_names else ():
        with KafkaWire(server.port, timeout=30) as kafka:
            for name in new_names:
                with suppress(BrokerError):  # it is the name of a group, or was deleted
                    kafka.delete_topic(name)


@pytest.fixture
def telling(caplog, monkeypatch):
    """Options with which the native client logs each step of groups and transactions: shown if the test fails."""
    monkeypatch.setattr(logger, "filters", [])
    caplog.set_level(logging.DEBUG, logger.name)
    return {"debug": "cgrp,eos"}


@pytest.fixture
def mq(kafka_server):
    """A client of its own for each test."""
    with mqplug.connect(kafka_server.url) as client:
        yield client


@pytest.fixture
def topic(mq):
    """A fresh topic of one partition."""
    name = new_name()
    mq.create_topic(name)
    return name
