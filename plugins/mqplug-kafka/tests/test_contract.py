"""The contract, over a real Kafka."""

from __future__ import annotations

import pytest

import mqplug
from mqplug.testing import Harness, contract


@pytest.fixture(scope="session")
def harness(kafka_server):
    """A broker that can be restarted and killed; members of other processes are missed after six seconds."""
    return Harness(
        connect=lambda: mqplug.connect(kafka_server.url),
        restart=kafka_server.restart,
        url=f"{kafka_server.url}?session_timeout=6",
        connect_to=lambda host, port, timeout: mqplug.connect(f"kafka://{host}:{port}", timeout=timeout),
        kill=kafka_server.kill,
        start=kafka_server.start,
    )


test_contract = contract()
