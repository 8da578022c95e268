"""The history check over a real Kafka of one node and of three, for ``MQPLUG_HISTORY`` seconds."""

from __future__ import annotations

import itertools
import os

import attrs
import pytest

import mqplug
from mqplug_testing import harness_for
from mqplug_testing.history import check_history

SECONDS = float(os.environ.get("MQPLUG_HISTORY", "60"))

pytestmark = [pytest.mark.night, pytest.mark.timeout(600 + 2 * SECONDS)]


def check(server, **hooks):
    """Run the history check with all the server's faults and these hooks."""
    with harness_for(server.url) as over_any_broker:
        verdict = check_history(
            attrs.evolve(
                over_any_broker,
                absent={},
                second_process=f"{server.url}?session_timeout=4",
                process_behind_network=f"{server.relayed_url}?session_timeout=4",
                behind_network=lambda: mqplug.connect(server.relayed_url),
                **{**server.hooks(), **hooks},
            ),
            SECONDS,
            rerun=False,
        )
    print(verdict.line)  # noqa: T201
    assert not verdict.anomalies, str(verdict)
    assert verdict.delivery == "exactly once"


@pytest.mark.disturbs
def test_one_broker_that_is_killed_frozen_and_cut_off(kafka_server):
    """No message is lost, repeated or reordered while the broker and its clients are killed, frozen and cut off."""
    check(kafka_server)


def test_three_nodes_that_are_killed_and_restarted(kafka_cluster):
    """No message is lost, repeated or reordered while nodes of each role are killed and the cluster restarts."""

    def kill_leader():
        with mqplug.connect(kafka_cluster.url) as mq:
            (topic,) = (each for each in mq.topics() if each.startswith("history-"))
        kafka_cluster.kill_leader(topic)

    disturb = itertools.cycle(
        [
            kill_leader,
            kafka_cluster.kill_controller,
            lambda: kafka_cluster.kill_coordinator("early"),
            kafka_cluster.rolling_restart,
        ]
    )

    def kill_node():
        next(disturb)()

    check(kafka_cluster, kill_node=kill_node)
