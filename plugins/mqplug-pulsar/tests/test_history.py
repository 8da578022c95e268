"""The history check over a real Pulsar, for ``MQPLUG_HISTORY`` seconds (60 by default)."""

from __future__ import annotations

import os

import attrs
import pytest
from plain_topics import plain_topics

import mqplug
from mqplug_devbrokers import PulsarServer
from mqplug_devbrokers.pytest_plugin import started
from mqplug_testing import harness_for
from mqplug_testing.history import Plan, check_history

SECONDS = float(os.environ.get("MQPLUG_HISTORY", "60"))

pytestmark = [pytest.mark.night, pytest.mark.timeout(600 + 2 * SECONDS)]


@pytest.fixture(scope="module")
def eager_pulsar():
    """A broker that persists every move of a group instead of one a second, as the check kills it after commits."""
    with started(lambda: PulsarServer(settings={"managedLedgerDefaultMarkDeleteRateLimit": "0"})) as server:
        yield server


def check(server, plan=None, **settings):
    """Run the history check with all faults that the server offers, and these settings of its clients."""
    query = "".join(f"&{key}={value}" for key, value in settings.items())
    with harness_for(server.url + query) as over_any_broker:
        verdict = check_history(
            attrs.evolve(
                over_any_broker,
                absent={},
                second_process=server.url + query,
                process_behind_network=server.relayed_url + query,
                behind_network=lambda: mqplug.connect(server.relayed_url + query),
                **server.hooks(),
            ),
            SECONDS,
            plan=plan,
            rerun=False,
            keep=os.environ.get("MQPLUG_HISTORY_FILE"),
        )
    print(verdict.line)  # noqa: T201
    assert not verdict.anomalies, str(verdict)


def test_batches_in_partitions(eager_pulsar):
    """No message is lost or out of order despite kills, freezes, network cuts and unloads."""
    check(eager_pulsar)


def test_single_messages_in_partitions(eager_pulsar):
    """No message is lost or out of order under the same faults when each message is sent without a batch."""
    check(eager_pulsar, batching="none")


def test_a_topic_without_partitions(eager_pulsar):
    """No message is lost or out of order under the same faults in a topic without partitions."""
    with plain_topics():
        check(eager_pulsar, Plan(partitions=1))
