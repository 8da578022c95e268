"""The contract, over a real Pulsar."""

from __future__ import annotations

import pytest

import mqplug
from mqplug.testing import Harness, contract


@pytest.fixture(scope="session")
def harness(pulsar_server, rest):
    """Retention in Pulsar removes whole ledgers: ``roll`` closes one."""

    def trim(client, topic, before):
        rest.trim(topic, before.log.partition)

    return Harness(
        connect=lambda: mqplug.connect(pulsar_server.url),
        restart=pulsar_server.restart,
        trim=trim,
        roll=lambda client, topic: rest.roll(topic),
        url=pulsar_server.url,
        connect_to=lambda host, port, timeout: mqplug.connect(f"pulsar://{host}:{port}", timeout=timeout),
        kill=pulsar_server.kill,
        start=pulsar_server.start,
        pause=pulsar_server.pause,
        unpause=pulsar_server.unpause,
        enforce=lambda client, topic: rest.enforce(topic),
    )


test_contract = contract()
