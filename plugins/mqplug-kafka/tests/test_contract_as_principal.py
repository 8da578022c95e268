"""The contract over TLS and SCRAM, for a user limited to sending and receiving on topics and groups of a prefix."""

from __future__ import annotations

import attrs
import pytest

import mqplug
from mqplug_testing import harness_for, prove

ADMINISTERING = (
    "BIG-08", "BIG-09", "CC-07", "CC-08", "CC-11", "ERR-01", "GRP-17", "GRP-20", "LIF-13", "TO-01", "TOP-02",
    "TOP-03", "TOP-06", "TOP-07", "TOP-08", "TOP-10", "TOP-12", "TOP-15", "TOP-17", "TOP-19", "TOP-20",
    "TOP-21", "TOP-22", "TOP-23", "TOP-24", "TOP-25",
)  # fmt: skip
"""The cases that need administrative rights, which the client under test lacks."""
BY_DAY = ("HP-01", "WM-01", "CON-01", "GRP-01", "GRP-03", "ACK-01", "ACK-04", "SEEK-01", "TOP-03", "TX-01", "ERR-10")


@pytest.fixture(scope="session")
def harness(secured_kafka, secured):
    """A broker at which carol may send and receive with the kit's topics, groups and transactions, and nothing else."""
    secured.allow("carol", "Read", "Write", "Describe", topic_prefix="kit-")
    secured.allow("carol", "Read", group_prefix="kit-")
    secured.allow("carol", "Read", group_prefix="mqplug-transaction-kit-")
    secured.allow("carol", "Write", "Describe", transaction_prefix="kit-")
    query = f"mechanism=SCRAM-SHA-256&tls=true&ca_file={secured.ca_file}"
    with harness_for(f"kafka://carol:carol-pw@{secured.address('sasl_tls')}?{query}") as over_any_broker:
        yield attrs.evolve(
            over_any_broker,
            admin=lambda: mqplug.connect(secured_kafka.url),
            enforce=lambda client, topic: None,
            known_failures=dict.fromkeys(ADMINISTERING, "it administers, which this user may not"),
        )


test_contract = prove(profile="quick")
