"""The contract, over the memory backend in each of its personalities, with the driver rules enforced."""

from __future__ import annotations

import uuid

import pytest

import mqplug
from mqplug.memory import Rules, Store
from mqplug.testing import Harness, contract


def _trim(client, topic, before):
    """What retention does, on a backend where nobody can ask for it."""
    store = client.unwrap(Store)
    with store.changed:
        store.partition(before.log).trim(before.coordinates)


def _roll(client, topic):
    store = client.unwrap(Store)
    with store.changed:
        for partition in store.topic(topic):
            partition.numbering.roll()


def _nothing(client, topic):
    """Retention is looked at whenever anything is."""


@pytest.fixture(scope="module", params=["full", "kafka", "pulsar"])
def harness(request):
    """Clients that share one named store, which lives as long as the first of them."""
    settings = {"name": uuid.uuid4().hex, "like": request.param, "debug": True}
    seen: list[Rules] = []

    def connect():
        client = mqplug.connect("memory", **settings)
        seen.append(client.unwrap(Rules))
        return client

    with connect():
        yield Harness(connect=connect, restart=lambda: None, trim=_trim, roll=_roll, enforce=_nothing)
    assert [broken for rules in seen for broken in rules.broken] == []


test_contract = contract()
