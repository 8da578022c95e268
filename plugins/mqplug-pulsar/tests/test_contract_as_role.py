"""The contract over TLS and tokens, for a role that may only send and receive in its namespace."""

from __future__ import annotations

import attrs
import pytest

import mqplug
from mqplug_testing import harness_for, prove

ADMINISTERING = (
    "BIG-08", "BIG-09", "CC-07", "CC-08", "ERR-01", "GRP-20", "LIF-13", "TO-01", "TOP-02", "TOP-03", "TOP-06",
    "TOP-07", "TOP-10", "TOP-12", "TOP-15", "TOP-17", "TOP-19", "TOP-20", "TOP-21", "TOP-22", "TOP-23",
    "TOP-24", "TOP-25",
)  # fmt: skip
"""The cases that administer with the client under test, which lacks the rights."""
BY_DAY = ("HP-01", "CON-01", "GRP-01", "GRP-03", "ACK-01", "ACK-04", "SEEK-01", "WM-01", "ERR-05")


@pytest.fixture(scope="session")
def harness(secured):
    """A broker at which the role carol may only send and receive."""
    secured.allow("carol", "produce", "consume", namespace="public/default")
    query = f"admin_url={secured.address('admin_tls')}&tls_ca={secured.ca_file}"
    broker = secured.address("tls").removeprefix("pulsar+ssl://")

    def url(token):
        return f"pulsar+ssl://:{token}@{broker}?{query}"

    with harness_for(url(secured.token("carol"))) as over_any_broker:
        yield attrs.evolve(
            over_any_broker,
            admin=lambda: mqplug.connect(url(secured.admin_token)),
            intruder=lambda timeout: mqplug.connect(url(secured.token("carol", lifetime=-60)), timeout=timeout),
            enforce=lambda client, topic: None,
            known_failures={
                **over_any_broker.known_failures,
                **dict.fromkeys(ADMINISTERING, "it administers, which this role may not"),
            },
        )


test_contract = prove(profile="quick")
