"""The contract for groups of the consumer protocol, KIP-848: some cases by day, all group cases at night."""

from __future__ import annotations

import attrs
import pytest
from kafka_driver import since_4

from mqplug_testing import harness_for, prove

OF_GROUPS = ("GRP", "ACK", "SEEK", "CON", "CLS", "TX")
BY_DAY = (
    "GRP-01", "GRP-02", "GRP-03", "GRP-04", "GRP-05", "GRP-06", "GRP-07", "GRP-08", "GRP-17", "ACK-04", "TX-04",
)  # fmt: skip

pytestmark = since_4


@pytest.fixture(scope="session")
def harness(shared_kafka):
    """A broker whose sessions of the consumer protocol last three seconds."""
    with harness_for(f"{shared_kafka.url}?group_protocol=consumer") as over_any_broker:
        yield attrs.evolve(over_any_broker, enforce=lambda client, topic: None)


test_contract = prove(only=OF_GROUPS, profile="quick")
