"""Ways to the owner of a store for what a producer sends: to this process, when it owns the store, or to another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mqplug import Error, Log
from mqplug_rocksmq._driver.sinks import SendCallback
from mqplug_rocksmq._driver.translation import partition_log
from mqplug_rocksmq._format.page import Page
from mqplug_rocksmq._store.deduplication import Origin
from mqplug_rocksmq._store.store import Store


class NumberedSend:
    """Messages on their way to one partition, as pages."""

    __slots__ = ("again", "pages", "partition", "sent", "sequence", "settled", "topic")

    def __init__(self, sequence: int, topic: str, partition: int, pages: list[bytes], settled: SendCallback) -> None:
        self.sequence = sequence
        self.topic = topic
        self.partition = partition
        self.pages = pages
        self.settled = settled
        self.sent: float | None = None
        self.again = False


class SendOutcome(NamedTuple):
    """What became of the parcel with this number."""

    sequence: int
    log: Log | None
    first: int
    error: Error | None


class Outlet(Protocol):
    """A way to the store's owner."""

    home: object | None
    """Whose way it is."""

    def send(self, parcel: NumberedSend) -> bool:
        """Send a parcel without waiting; False where it cannot be taken now. ``Gone`` where there is no owner."""
        ...

    def receive(self, timeout: float) -> list[SendOutcome]:
        """Return what was settled, as soon as anything was. ``Gone`` where there is no owner."""
        ...

    def drop(self) -> None:
        """Let go of what does not work any more."""

    def close(self, timeout: float) -> None:
        """Let go for good; what is on its way is not sent again."""


class StoreOutlet:
    """Into the store of this process, which has become the owner."""

    def __init__(self, store: Store, producer: bytes, *, strict: bool) -> None:
        self._store = store
        self._strict = strict and store.settings.sync != "always"
        self._producer = producer
        self._news = threading.Event()
        self._outcomes: deque[SendOutcome] = deque()
        self.home: object | None = None
        store.origins.join(producer)

    def send(self, parcel: NumberedSend) -> bool:
        try:
            store_numbered_send(self._store, self._producer, parcel, self._settled)
        except Error as error:
            self._settled(SendOutcome(parcel.sequence, None, 0, error))
        return True

    def _settled(self, outcome: SendOutcome) -> None:
        self._outcomes.append(outcome)
        self._news.set()

    def receive(self, timeout: float) -> list[SendOutcome]:
        self._news.wait(timeout)
        self._news.clear()
        outcomes = [self._outcomes.popleft() for _ in range(len(self._outcomes))]
        return self._synced(outcomes) if outcomes and self._strict else outcomes

    def _synced(self, outcomes: list[SendOutcome]) -> list[SendOutcome]:
        try:
            self._store.sync()
        except Error as error:
            return [outcome._replace(error=outcome.error or error) for outcome in outcomes]
        return outcomes

    def drop(self) -> None:
        self._store.origins.leave(self._producer, for_good=False)

    def close(self, timeout: float) -> None:
        self._store.origins.leave(self._producer, for_good=True)


def store_numbered_send(
    store: Store, producer: bytes, parcel: NumberedSend, settled: Callable[[SendOutcome], None]
) -> None:
    """Store what another process has made pages of."""
    topic = store.topics.get(parcel.topic)
    log = partition_log(store.id, topic, parcel.partition)
    sequence = parcel.sequence

    def done(first: int, error: Error | None, /) -> None:  # it may be called late, and keeps no pages till then
        settled(SendOutcome(sequence, log, first, error))

    origin = Origin(producer, sequence, parcel.again)
    store.append_bodies(topic.logs[parcel.partition], [Page(raw).unsealed() for raw in parcel.pages], done, origin)
