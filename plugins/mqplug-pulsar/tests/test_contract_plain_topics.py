"""The contract over topics without partitions: some cases by day, all at night."""

from __future__ import annotations

import attrs
import pytest
from broker_harness import shared
from contract_parts import UNDISTURBED
from plain_topics import plain_topics

from mqplug_testing import prove

BY_DAY = (
    "HP-01", "WM-01", "WM-03", "CON-01", "GRP-01", "GRP-03", "ACK-01", "ACK-04", "SEEK-01", "SEEK-07", "TOP-03",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def without_partitions():
    """Create topics without partitions where the kit asks for one partition, in this module only."""
    with plain_topics():
        yield


@pytest.fixture(scope="session")
def harness(shared_pulsar):
    """The broker that all workers share; test_contract_disturbed.py has the other cases."""
    with shared(shared_pulsar) as over_this_broker:
        adds = dict.fromkeys(("GRP-20", "LIF-13"), "it adds partitions, which such a topic cannot have")
        known = {**over_this_broker.known_failures, **adds}
        yield attrs.evolve(over_this_broker, known_failures=known)


test_contract = prove(only=UNDISTURBED, profile="quick")
