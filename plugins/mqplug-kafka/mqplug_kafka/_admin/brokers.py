"""Lists the brokers of the cluster.

It reads the metadata: ``describe_cluster`` ends the process if a broker that is starting knows of no broker. Which of
them is the controller is left out: with KRaft, brokers name any of theirs.
"""

from __future__ import annotations

from mqplug import Broker, ClusterInfo
from mqplug_kafka._cluster.cluster_identity import ASKED_TOPIC
from mqplug_kafka._cluster.connection import KafkaConnection


def describe(connection: KafkaConnection, timeout: float) -> ClusterInfo:
    """Return the brokers that run, by number."""
    asked = connection.worker.run(lambda: connection.admin.list_topics(ASKED_TOPIC, timeout=max(0.01, timeout)))
    found = connection.requests.wait("describe cluster", asked, timeout)
    brokers = sorted(found.brokers.values(), key=lambda each: each.id)
    return ClusterInfo(
        str(found.cluster_id), tuple(Broker(str(each.id), f"{each.host}:{each.port}") for each in brokers)
    )
