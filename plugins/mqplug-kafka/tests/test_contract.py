"""The contract over the run's Kafka: the cases that do not disturb the broker."""

from __future__ import annotations

import attrs
import pytest
from brief_contract import BRIEF
from contract_parts import UNDISTURBED

import mqplug
from mqplug_testing import harness_for, prove

BY_DAY = BRIEF


@pytest.fixture(scope="session")
def harness(shared_kafka):
    """A broker that enforces retention by itself."""
    with harness_for(shared_kafka.url) as over_any_broker:
        yield attrs.evolve(
            over_any_broker,
            absent={},
            second_process=f"{shared_kafka.url}?session_timeout=4",
            enforce=lambda client, topic: None,
            hasty=lambda: mqplug.connect(
                "kafka",
                servers=[shared_kafka.bootstrap],
                session_timeout=2,
                librdkafka={"max.poll.interval.ms": "2000"},
            ),
            poll_limit=2.0,
        )


test_contract = prove(only=UNDISTURBED, profile="quick")
