"""The contract over the run's Pulsar: the cases that do not disturb the broker."""

from __future__ import annotations

import pytest
from brief_contract import BRIEF
from broker_harness import shared
from contract_parts import UNDISTURBED

from mqplug_testing import prove

BY_DAY = BRIEF


@pytest.fixture(scope="session")
def harness(shared_pulsar):
    """A broker with partitioned topics and messages in batches."""
    with shared(shared_pulsar) as over_this_broker:
        yield over_this_broker


test_contract = prove(only=UNDISTURBED, profile="quick")  # the harness knows the cases that fail over any Pulsar
