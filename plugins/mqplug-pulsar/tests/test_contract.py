"""The contract, over the Pulsar of the run: the cases that leave the broker alone."""

from __future__ import annotations

import pytest
from brief_contract import BRIEF
from broker_harness import shared
from contract_parts import UNDISTURBED

from mqplug_testing import prove

BY_DAY = BRIEF


@pytest.fixture(scope="session")
def harness(shared_pulsar):
    """Topics with partitions, messages in batches."""
    with shared(shared_pulsar) as over_this_broker:
        yield over_this_broker


test_contract = prove(only=UNDISTURBED, profile="quick")  # what fails over any Pulsar is known to the harness
