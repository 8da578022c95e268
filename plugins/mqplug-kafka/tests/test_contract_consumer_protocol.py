"""The contract for groups of the consumer protocol, KIP-848: some cases in each run, all of groups each night."""

from __future__ import annotations

import os

import attrs
import pytest

from mqplug.testing import prove
from mqplug_kafka._harness import harness as shipped

OF_GROUPS = ("GRP", "ACK", "SEEK", "CON", "CLS", "TX")
IN_EACH_RUN = (
    "GRP-01", "GRP-02", "GRP-03", "GRP-04", "GRP-05", "GRP-06", "GRP-07", "GRP-08", "GRP-17", "ACK-04", "TX-04",
)  # fmt: skip

pytestmark = pytest.mark.skipif(
    os.environ.get("MQPLUG_DEVBROKERS_KAFKA", "4").startswith("3."), reason="the consumer protocol came with Kafka 4.0"
)


@pytest.fixture(scope="session")
def harness(kafka_server):
    """A broker whose sessions of the consumer protocol last three seconds."""
    with shipped(f"{kafka_server.url}?group_protocol=consumer") as over_any_broker:
        yield attrs.evolve(over_any_broker, enforce=lambda client, topic: None)


IN_FULL = os.environ.get("MQPLUG_PROFILE") == "full"
test_contract = prove(only=OF_GROUPS if IN_FULL else IN_EACH_RUN)
