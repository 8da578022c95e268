"""Outlets: the ways of a client process's sends into the store, when this process owns it, or to its owner."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mqplug import Error, Log
from mqplug_rocksmq._driver.producers import SendCallback
from mqplug_rocksmq._driver.translation import partition_log
from mqplug_rocksmq._engine.errors import WritesStopped
from mqplug_rocksmq._format.page import Page
from mqplug_rocksmq._store.deduplication import Origin
from mqplug_rocksmq._store.store import Store


class NumberedSend:
    """Messages for one partition, as pages, with their number among the producer's sends."""

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
    """The result of the send with this number."""

    sequence: int
    log: Log | None
    first: int
    error: Error | None


class Outlet(Protocol):
    """A way to the store's owner."""

    access: object | None
    """The connection to the store that this outlet belongs to."""

    def send(self, send: NumberedSend) -> bool:
        """Pass on a send without waiting. Return False if it cannot be taken now. Raise ``OwnerGone`` at the end."""
        ...

    def receive(self, timeout: float) -> list[SendOutcome]:
        """Return outcomes as soon as there are any. Raise ``OwnerGone`` at the end."""
        ...

    def drop(self) -> None:
        """Release a failed outlet. Its sends go to another one."""

    def close(self, timeout: float) -> None:
        """Release it for good. Unanswered sends are not repeated."""


class StoreOutlet:
    """Sends into the store of this process, which has become the owner."""

    def __init__(self, store: Store, producer: bytes, *, strict: bool) -> None:
        self._store = store
        self._strict = strict and store.settings.sync != "always"
        self._producer = producer
        self._news = threading.Event()
        self._outcomes: deque[SendOutcome] = deque()
        self.access: object | None = None
        store.deduplication.join(producer)

    def send(self, send: NumberedSend) -> bool:
        try:
            store_numbered_send(self._store, self._producer, send, self._settled)
        except WritesStopped:
            return False
        except Error as error:
            self._settled(SendOutcome(send.sequence, None, 0, error))
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
        self._store.deduplication.leave(self._producer, for_good=False)

    def close(self, timeout: float) -> None:
        self._store.deduplication.leave(self._producer, for_good=True)


def store_numbered_send(
    store: Store, producer: bytes, send: NumberedSend, settled: Callable[[SendOutcome], None]
) -> None:
    """Store the pages of a client process, unless a previous owner stored them."""
    topic = store.topics.get(send.topic)
    log = partition_log(store.id, topic, send.partition)
    sequence = send.sequence

    def done(first: int, error: Error | None, /) -> None:  # it may be called late, and keeps no pages till then
        settled(SendOutcome(sequence, log, first, error))

    origin = Origin(producer, sequence, send.again)
    store.append_bodies(topic.logs[send.partition], [Page(raw).unsealed() for raw in send.pages], done, origin)
