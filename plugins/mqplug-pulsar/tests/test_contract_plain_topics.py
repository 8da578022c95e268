"""The contract over topics without partitions: some cases in each run, all of the quick profile each night."""

from __future__ import annotations

import os

import attrs
import pytest
from disturbed_harness import disturbed
from plain_topics import plain_topics

from mqplug.testing import CASES, prove

IN_EACH_RUN = (
    "HP-01", "WM-01", "WM-03", "CON-01", "GRP-01", "GRP-03", "ACK-01", "ACK-04", "SEEK-01", "SEEK-07", "TOP-03",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def without_partitions():
    """Where the kit creates a topic of one partition, it has none. Tests of other modules are not concerned."""
    with plain_topics():
        yield


@pytest.fixture(scope="session")
def harness(pulsar_server, rest):
    """A broker with all hooks."""
    with disturbed(pulsar_server, rest) as over_this_broker:
        known = {**over_this_broker.known_failures, "LIF-13": "it adds partitions, which such a topic cannot have"}
        yield attrs.evolve(over_this_broker, known_failures=known)


AT_NIGHT = os.environ.get("MQPLUG_PROFILE") == "full"
QUICK = tuple(case.id for case in CASES if case.runs_in("quick"))
test_contract = prove(only=QUICK if AT_NIGHT else IN_EACH_RUN, profile="quick")
