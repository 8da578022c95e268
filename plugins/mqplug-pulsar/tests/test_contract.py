"""The contract, over a real Pulsar."""

from __future__ import annotations

import attrs
import pytest

import mqplug
from mqplug.testing import prove
from mqplug_pulsar._harness import harness as shipped


@pytest.fixture(scope="session")
def harness(pulsar_server, rest):
    """Retention in Pulsar removes whole ledgers, which no group needs any more: ``roll`` closes one."""

    def trim(client, topic, before):
        rest.expire(topic, before)
        pulsar_server.trim(f"{topic}-partition-{before.log.partition}")

    with shipped(pulsar_server.url) as over_any_broker:
        yield attrs.evolve(
            over_any_broker,
            absent={},
            trim_before=trim,
            roll=lambda client, topic: pulsar_server.unload(topic),
            process_behind_network=pulsar_server.relayed_url,
            behind_network=lambda: mqplug.connect(pulsar_server.relayed_url),
            **pulsar_server.hooks(),
            enforce=lambda client, topic: rest.enforce(topic),
        )


test_contract = prove()  # what fails over any Pulsar is known to the harness: KNOWN_FAILURES
