"""A client and a topic for each test, on the servers that tests/helpers/run_servers.py starts for the run.

Each test's topics are deleted after it: a broker with a few hundred topics is slow to stop and start.
"""

from __future__ import annotations

import logging

import pytest
from confluent_kafka.admin import AdminClient
from kafka_driver import new_name, new_names

import mqplug
from mqplug_devbrokers import TokenServer


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
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        for deleted in admin.delete_topics(new_names, request_timeout=30).values():
            deleted.exception()  # if any, the name is a group's, or the topic was deleted


@pytest.fixture
def telling(caplog, monkeypatch):
    """Options that make librdkafka log each step of groups and transactions: shown if the test fails."""
    logger = logging.getLogger("mqplug.kafka")
    monkeypatch.setattr(logger, "filters", [])
    caplog.set_level(logging.DEBUG, logger.name)
    return {"debug": "cgrp,eos"}


@pytest.fixture
def mq(kafka_server):
    """A client used by one test only."""
    with mqplug.connect(kafka_server.url) as client:
        yield client


@pytest.fixture
def topic(mq):
    """A new topic with one partition."""
    name = new_name()
    mq.create_topic(name)
    return name
