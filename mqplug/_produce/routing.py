"""Routes: how many partitions a topic has, and who chooses among them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

import attrs

from mqplug._model.checks import whole_number
from mqplug._produce.partitioners import Chooser, Partitioner, PartitionerName, chooser

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline
    from mqplug.spi._actions import TopicInfo


class FindsTopics(Protocol):
    """Looks a topic up at the backend."""

    def find(self, topic: str, deadline: Deadline) -> TopicInfo:
        """Return what the backend says of the topic; ``TopicNotFound`` if there is none."""
        ...


@attrs.frozen
class Route:
    """Where the records of one topic go."""

    topic: str
    partitions: int
    chooser: Chooser

    def lacks(self, partition: int | None) -> bool:
        """Whether this partition, if it is one, was added since; then the topic has to be looked at again."""
        return type(partition) is int and partition >= self.partitions

    def check(self, partition: int) -> int:
        """A partition that the caller named, or ``TypeError`` and ``ValueError``."""
        if type(partition) is not int:
            whole_number("a partition", partition)
        if not 0 <= partition < self.partitions:
            raise ValueError(f"{self.topic!r} has partitions 0 to {self.partitions - 1}, and no {partition}")
        return partition


class Router:
    """Finds the routes of one producer."""

    def __init__(
        self, topics: FindsTopics, partitioner: PartitionerName | Partitioner, natively: Collection[str]
    ) -> None:
        self.name = _name(partitioner)
        self._partitioner: PartitionerName | Partitioner = partitioner
        self._native = self.name in natively
        self._topics = topics
        chooser(partitioner, 1)  # which refuses what is none

    def find(self, topic: str, deadline: Deadline) -> Route:
        """The route to a topic as it stands; ``TopicNotFound`` if there is none."""
        return self.route_of(self._topics.find(topic, deadline))

    def route_of(self, info: TopicInfo) -> Route:
        """The route to a topic that was described."""
        return Route(info.name, len(info.logs), chooser(self._partitioner, len(info.logs), native=self._native))


def _name(partitioner: object) -> str:
    return partitioner if isinstance(partitioner, str) else "custom"
