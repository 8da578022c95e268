"""The backends that a test runs over, and what tests do to their topics."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable

import attrs
import pytest

import mqplug
from mqplug import Position, Record

SERVERS = ("kafka", "pulsar")


@attrs.frozen
class Cluster:
    """A backend: its address, and a client."""

    url: str
    client: mqplug.Client

    @property
    def backend(self) -> str:
        """The name: ``rocksmq``, ``kafka`` or ``pulsar``."""
        return self.client.backend

    @property
    def has_offsets(self) -> bool:
        """Whether one number identifies a message. Pulsar's ids have several parts."""
        return self.backend != "pulsar"


def over(*by_day: str, at_night: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Return a mark for tests that run over these backends. Other tests run over RocksMQ by day, over all at night."""
    nightly = [pytest.param(each, marks=pytest.mark.night) for each in at_night]
    return pytest.mark.parametrize("cluster", [*by_day, *nightly], indirect=True)


def new_name(beginning: str) -> str:
    """Return a new topic name, because all workers and other tests share the servers."""
    return f"{beginning}-{uuid.uuid4().hex[:8]}"


def send(cluster: Cluster, topic: str, amount: int, partition: int = 0) -> list[mqplug.MessageId]:
    """Send the numbers from 0 to one partition, as text. Return their ids."""
    with cluster.client.producer(topic) as out:
        sent = out.send_many([Record(str(number).encode(), partition=partition) for number in range(amount)])
    assert all(isinstance(each, mqplug.MessageId) for each in sent)
    return sent  # type: ignore[return-value]


def trim(cluster: Cluster, message_id: mqplug.MessageId) -> None:
    """Remove the messages before one."""
    position = Position(message_id.log, message_id.coordinates)
    cluster.client.trim(message_id.log.topic, {message_id.log.partition: position})


def points(topic: str, *partitions: object) -> str:
    """Return the JSON of a point for each partition, for ``startingOffsets`` and ``endingOffsets``."""
    return json.dumps({topic: dict(enumerate(partitions))})
