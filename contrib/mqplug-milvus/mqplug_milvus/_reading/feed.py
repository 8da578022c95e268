"""A collection's changes as a stream of events, from a group that continues where it stopped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from mqplug import EARLIEST, Client, Message, MessageId, matching
from mqplug_milvus._format.decoding import decode
from mqplug_milvus._format.events import CollectionCreated, CollectionEvent, Event, TimeTick, clock
from mqplug_milvus._reading.order import MOST, TickOrder

TOPICS = ".*-rootcoord-dml_[0-9]+"
"""The topics with rows, of every Milvus on a backend."""


def read(mq: Client, topic: str, *, start: Any = EARLIEST, waiting: int = MOST) -> Iterator[Event]:
    """Yield what a topic holds now, in the order of time stamps. Events after its last tick are left out.

    ``start`` is a place as in ``Client.read``. At most ``waiting`` events are kept until a tick comes; then
    ``TickOverdue`` is raised.
    """
    order = TickOrder(topic, waiting)
    for message in mq.read(topic, start=start):
        yield from order.add(decode(message))


def collections(mq: Client, pattern: str = TOPICS) -> dict[int, CollectionCreated]:
    """Return the collections by number, as far as the beginning of their topics is still there."""
    found: dict[int, CollectionCreated] = {}
    for message in mq.read(matching(pattern)):
        event = decode(message)
        if isinstance(event, CollectionCreated):
            found[event.collection_id] = event
    return found


class Events:
    """The events of a collection, or of all, as they happen.

    An event is done when the next one is asked for: its message is acked then. A program that is killed gets the
    events that were not done once more, and none is skipped.
    """

    def __init__(
        self,
        mq: Client,
        collection: str | int | None = None,
        *,
        group: str,
        pattern: str = TOPICS,
        start: Any = EARLIEST,
        waiting: int = MOST,
        ticks: bool = False,
    ) -> None:
        self._collection = collection
        self._waiting = waiting
        self._ticks = ticks
        self._orders: dict[str, TickOrder] = {}
        self._messages: dict[MessageId, Message] = {}
        self._consumer = mq.consumer(matching(pattern), group=group, start=start)
        self._numbers: set[int] = {collection} if isinstance(collection, int) else set()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit what is done, and close."""
        self._consumer.close()

    def __iter__(self) -> Iterator[Event]:
        while True:
            yield from self.take(timeout=None)

    def take(self, timeout: float | None) -> Iterator[Event]:
        """Yield the events that are final now; none if no tick comes within the timeout."""
        for message in self._consumer.receive_many(1000, timeout=timeout):
            yield from self._events(message)

    def complete_to(self) -> datetime | None:
        """Return the time up to which all events of the topics seen so far were yielded; None before their ticks."""
        time = min((order.complete_to for order in self._orders.values()), default=0)
        return clock(time) if time else None

    def _events(self, message: Message) -> Iterator[Event]:
        order = self._orders.get(message.topic)
        if order is None:
            order = self._orders[message.topic] = TickOrder(message.topic, self._waiting)
        if message.id in self._messages:  # it came once more, and waits already
            return
        self._messages[message.id] = message
        for event in order.add(decode(message)):
            if self._is_asked_for(event):
                yield event
            if event.id is not None:
                self._consumer.ack(self._messages.pop(event.id))

    def _is_asked_for(self, event: Event) -> bool:
        if isinstance(event, TimeTick):
            return self._ticks
        if not isinstance(event, CollectionEvent):
            return self._collection is None
        if event.collection == self._collection:
            self._numbers.add(event.collection_id)
        return self._collection is None or event.collection_id in self._numbers


def events(mq: Client, collection: str | int | None = None, **options: Any) -> Events:
    """Return the events of a collection by name or number, or of all, as they happen: see ``Events``."""
    return Events(mq, collection, **options)
