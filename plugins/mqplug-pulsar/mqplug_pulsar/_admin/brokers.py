"""Lists the brokers of the cluster, through the admin interface."""

from __future__ import annotations

from urllib.parse import quote

import mqplug
from mqplug import Broker, ClusterInfo
from mqplug_pulsar._cluster.admin_interface import ADMIN_URL_FIX, AdminRefused, error_from_refusal
from mqplug_pulsar._cluster.connection import PulsarConnection


def describe(connection: PulsarConnection, timeout: float) -> ClusterInfo:
    """Return the brokers that run. Their addresses are those of the admin interface."""
    if connection.admin is None:
        raise mqplug.Unsupported("multi_node", "listing brokers needs Pulsar's admin interface", fix=ADMIN_URL_FIX)
    try:
        found = connection.admin.get(f"brokers/{quote(connection.cluster, safe='')}", timeout)
    except AdminRefused as error:
        raise error_from_refusal(error) from error
    return ClusterInfo(connection.cluster, tuple(Broker(each, each) for each in sorted(found)))
