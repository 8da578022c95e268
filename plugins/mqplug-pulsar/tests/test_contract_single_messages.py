"""The contract with single messages instead of batches: some cases by day, all at night."""

from __future__ import annotations

import pytest
from broker_harness import shared
from contract_parts import UNDISTURBED

from mqplug_testing import prove

BY_DAY = (
    "HP-01", "PRO-01", "PRO-07", "WM-01", "WM-03", "CON-01", "GRP-01", "ACK-01", "ACK-04", "SEEK-01", "SEEK-07",
)  # fmt: skip


@pytest.fixture(scope="session")
def harness(shared_pulsar):
    """The broker that all workers share; test_contract_disturbed.py has the other cases."""
    with shared(shared_pulsar, "&batching=none") as over_this_broker:
        yield over_this_broker


test_contract = prove(only=UNDISTURBED, profile="quick")
