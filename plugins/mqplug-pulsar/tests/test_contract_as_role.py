"""The contract over TLS and tokens, for a role that may only send and receive in its namespace."""

from __future__ import annotations

import attrs
import pytest

import mqplug
from mqplug.testing import prove
from mqplug_devbrokers import PulsarSecurity, PulsarServer
from mqplug_devbrokers.pytest_plugin import started
from mqplug_pulsar._harness import harness as shipped

WITHOUT_ADMINISTRATION = ("HP-01", "CON-01", "GRP-01", "GRP-03", "ACK-01", "ACK-04", "SEEK-01", "WM-01", "ERR-05")


@pytest.fixture(scope="session")
def harness():
    """A broker at which carol may send and receive, no more."""
    with started(lambda: PulsarServer(security=PulsarSecurity(authorize=True))) as server:
        secured = server.secured
        secured.allow("carol", "produce", "consume", namespace="public/default")
        query = f"admin_url={secured.address('admin_tls')}&tls_ca={secured.ca_file}"
        broker = secured.address("tls").removeprefix("pulsar+ssl://")

        def url(token):
            return f"pulsar+ssl://:{token}@{broker}?{query}"

        with shipped(url(secured.token("carol"))) as over_any_broker:
            yield attrs.evolve(
                over_any_broker,
                admin=lambda: mqplug.connect(server.url),
                intruder=lambda timeout: mqplug.connect(url(secured.token("carol", lifetime=-60)), timeout=timeout),
                enforce=lambda client, topic: None,
            )


test_contract = prove(only=WITHOUT_ADMINISTRATION, profile="quick")
