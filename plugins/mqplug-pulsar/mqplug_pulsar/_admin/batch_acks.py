"""Stores the acks of batches that are acked in part, in a property of the subscription.

The broker forgets them when it unloads the topic, and writes them down only with later ones. Each partition has a
subscription of its own, and so its own property.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import mqplug
from mqplug import Log
from mqplug_pulsar._admin import subscription_properties
from mqplug_pulsar._admin.subscription_properties import Properties
from mqplug_pulsar._cluster.broker_statistics import BATCH_ACKS_PROPERTY
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format.batch_acks import BatchAcks, Entry


def add(
    connection: PulsarConnection, group: str, log: Log, masks: Mapping[Entry, int], mark: Entry, timeout: float
) -> None:
    """Store acks, in addition to those that are stored. Up to ``mark``, an entry, the group had acked all."""

    def edit(there: Properties) -> Properties:
        stored = BatchAcks.parse(there.get(BATCH_ACKS_PROPERTY, ""))
        if stored.mark > mark:
            stored = BatchAcks()  # written before the group was moved back
        return {**there, BATCH_ACKS_PROPERTY: stored.joined(masks).behind(mark).text()}

    if connection.admin is not None:
        with suppress(mqplug.AccessDenied, mqplug.AuthError):  # then ``ack_granularity`` is ``entry``
            subscription_properties.change(connection, connection.admin, log, group, edit, timeout)
