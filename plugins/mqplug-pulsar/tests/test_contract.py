"""The contract, over a real Pulsar."""

from __future__ import annotations

import pytest
from disturbed_harness import disturbed

from mqplug.testing import prove


@pytest.fixture(scope="session")
def harness(pulsar_server, rest):
    """A broker with all hooks, and topics with partitions."""
    with disturbed(pulsar_server, rest) as over_this_broker:
        yield over_this_broker


test_contract = prove()  # what fails over any Pulsar is known to the harness: KNOWN_FAILURES
