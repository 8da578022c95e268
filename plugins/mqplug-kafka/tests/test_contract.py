"""The contract, over a real Kafka."""

from __future__ import annotations

import attrs
import pytest

import mqplug
from mqplug.testing import prove
from mqplug_kafka._harness import harness as shipped


@pytest.fixture(scope="session")
def harness(kafka_server):
    """A broker that can be restarted, killed and frozen, and looks by itself for what retention removed."""
    with shipped(kafka_server.url) as over_any_broker:
        yield attrs.evolve(
            over_any_broker,
            absent={},
            second_process=f"{kafka_server.url}?session_timeout=4",
            process_behind_network=f"{kafka_server.relayed_url}?session_timeout=4",
            behind_network=lambda: mqplug.connect(kafka_server.relayed_url),
            **kafka_server.hooks(),
            enforce=lambda client, topic: None,
            hasty=lambda: mqplug.connect(
                "kafka",
                servers=[kafka_server.bootstrap],
                session_timeout=2,
                librdkafka={"max.poll.interval.ms": "2000"},
            ),
            poll_limit=2.0,
            intruder=lambda timeout: mqplug.connect(
                "kafka", servers=[kafka_server.login], username="bob", password="guessed", timeout=timeout
            ),
        )


test_contract = prove()
