"""The contract with messages sent alone, not in batches: some cases in each run, the quick profile each night."""

from __future__ import annotations

import os

import pytest
from disturbed_harness import disturbed

from mqplug.testing import CASES, prove

IN_EACH_RUN = (
    "HP-01", "PRO-01", "PRO-07", "WM-01", "WM-03", "CON-01", "GRP-01", "ACK-01", "ACK-04", "SEEK-01", "SEEK-07",
)  # fmt: skip


@pytest.fixture(scope="session")
def harness(pulsar_server, rest):
    """A broker with all hooks."""
    with disturbed(pulsar_server, rest, "&batching=none") as over_this_broker:
        yield over_this_broker


AT_NIGHT = os.environ.get("MQPLUG_PROFILE") == "full"
QUICK = tuple(case.id for case in CASES if case.runs_in("quick"))
test_contract = prove(only=QUICK if AT_NIGHT else IN_EACH_RUN, profile="quick")
