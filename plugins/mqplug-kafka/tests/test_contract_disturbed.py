"""The contract over a Kafka that is restarted, killed, frozen and cut off: the cases that disturb the broker."""

from __future__ import annotations

import attrs
import pytest
from brief_contract import BRIEF
from contract_parts import DISTURBING

import mqplug
from mqplug_testing import harness_for, prove

BY_DAY = BRIEF


@pytest.fixture(scope="session")
def harness(disturbed_kafka):
    """A broker with all hooks for disturbances."""
    with harness_for(disturbed_kafka.url) as over_any_broker:
        yield attrs.evolve(
            over_any_broker,
            absent={},
            second_process=f"{disturbed_kafka.url}?session_timeout=4",
            process_behind_network=f"{disturbed_kafka.relayed_url}?session_timeout=4",
            behind_network=lambda: mqplug.connect(disturbed_kafka.relayed_url),
            **disturbed_kafka.hooks(),
            enforce=lambda client, topic: None,
            intruder=lambda timeout: mqplug.connect(
                "kafka", servers=[disturbed_kafka.login], username="bob", password="guessed", timeout=timeout
            ),
        )


test_contract = prove(only=DISTURBING, profile="quick")
