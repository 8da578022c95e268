"""Lists the brokers of the cluster.

Which of them is the controller is left out: with KRaft, brokers name any of theirs.
"""

from __future__ import annotations

from mqplug import Broker, ClusterInfo
from mqplug_kafka._cluster.connection import KafkaConnection


def describe(connection: KafkaConnection, timeout: float) -> ClusterInfo:
    """Return the brokers that run, by number."""
    found = connection.requests.ask(
        "describe cluster", lambda left: connection.admin.describe_cluster(request_timeout=left), timeout
    )
    nodes = sorted(found.nodes, key=lambda node: node.id)
    return ClusterInfo(
        str(found.cluster_id), tuple(Broker(str(each.id), f"{each.host}:{each.port}", each.rack) for each in nodes)
    )
