"""The contract, over a real Pulsar."""

from __future__ import annotations

import attrs
import pytest

import mqplug
from mqplug.testing import prove
from mqplug_pulsar._harness import harness as shipped


@pytest.fixture(scope="session")
def harness(pulsar_server, rest):
    """Retention in Pulsar removes whole ledgers: ``roll`` closes one."""

    def trim(client, topic, before):
        rest.trim(topic, before.log.partition)

    with shipped(pulsar_server.url) as over_any_broker:
        yield attrs.evolve(
            over_any_broker,
            absent={},
            restart=pulsar_server.restart,
            trim_before=trim,
            roll=lambda client, topic: rest.roll(topic),
            kill=pulsar_server.kill,
            start=pulsar_server.start,
            pause=pulsar_server.pause,
            unpause=pulsar_server.unpause,
            cut_network=pulsar_server.cut_network,
            heal_network=pulsar_server.heal_network,
            behind_network=lambda: mqplug.connect(pulsar_server.relayed_url),
            enforce=lambda client, topic: rest.enforce(topic),
        )


test_contract = prove()  # what fails over any Pulsar is known to the harness: KNOWN_FAILURES
