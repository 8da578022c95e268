"""The contract's cases that restart, kill, freeze and cut off the broker."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from brief_contract import BRIEF
from broker_harness import disturbed
from contract_parts import DISTURBING
from plain_topics import plain_topics

from mqplug_testing import prove

BY_DAY = BRIEF


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((nullcontext, ""), id="batches"),
        pytest.param((nullcontext, "&batching=none"), id="single messages", marks=pytest.mark.night),
        pytest.param((plain_topics, ""), id="plain topics", marks=pytest.mark.night),
    ],
)
def harness(request, disturbed_pulsar):
    """A broker with all hooks, with batches or single messages, with partitioned or unpartitioned topics."""
    topics, query = request.param
    with topics(), disturbed(disturbed_pulsar, query) as over_this_broker:
        yield over_this_broker


test_contract = prove(only=DISTURBING, profile="quick")
