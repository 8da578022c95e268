"""The contract, over a real Pulsar."""

from __future__ import annotations

import pytest

import mqplug
from mqplug.testing import Harness, prove


@pytest.fixture(scope="session")
def harness(pulsar_server, rest):
    """Retention in Pulsar removes whole ledgers, which no group needs any more: ``roll`` closes one."""

    def trim(client, topic, before):
        rest.expire(topic, before)
        rest.trim(topic, before.log.partition)

    return Harness(
        connect=lambda: mqplug.connect(pulsar_server.url),
        extended=lambda extensions: mqplug.connect(pulsar_server.url, extensions=extensions),
        restart=pulsar_server.restart,
        trim_before=trim,
        roll=lambda client, topic: rest.roll(topic),
        second_process=pulsar_server.url,
        unreachable=lambda host, port, timeout: mqplug.connect(f"pulsar://{host}:{port}", timeout=timeout),
        kill=pulsar_server.kill,
        start=pulsar_server.start,
        pause=pulsar_server.pause,
        unpause=pulsar_server.unpause,
        cut_network=pulsar_server.cut_network,
        heal_network=pulsar_server.heal_network,
        behind_network=lambda: mqplug.connect(pulsar_server.relayed_url),
        enforce=lambda client, topic: rest.enforce(topic),
    )


test_contract = prove()
