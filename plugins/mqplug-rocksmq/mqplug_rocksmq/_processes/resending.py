"""A producer's sends to a store of another process: in order, many at once, and again to the next owner.

Each send has a number, which the owner stores together with the pages. A send whose answer was lost can be sent again
to the next owner: it is stored once, and the answer is the offset that it already has. An outlet leads to one owner:
sends go out without waiting, and outcomes are read on demand. This process may have become the owner itself.
"""

from __future__ import annotations

import select
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from mqplug import AlreadyOpen, ConnectError, Error, Log, OutcomeUnknown, Timeout
from mqplug.spi import Deadline
from mqplug_rocksmq._driver.producers import SendCallback
from mqplug_rocksmq._driver.translation import partition_log
from mqplug_rocksmq._engine.errors import WritesStopped
from mqplug_rocksmq._format.page import Page, PageBody
from mqplug_rocksmq._processes.client_connection import ANSWER_GRACE_S, RECEIVE_BYTES, ClientConnection, OwnerGone
from mqplug_rocksmq._processes.codec import error_from_wire
from mqplug_rocksmq._processes.frames import FrameHeader, FrameReader, pack_frame
from mqplug_rocksmq._settings import BACKEND
from mqplug_rocksmq._store.repeated_requests import SLOT_COUNT, Origin
from mqplug_rocksmq._store.store import Store

RESEND_WITHIN_S: Final = 300.0  # owners remember a send for longer
MIN_REOPEN_S: Final = 0.2


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
    """A path to the owner of a store."""

    access: object | None
    """The connection to the store that this outlet belongs to."""

    def send(self, send: NumberedSend) -> bool:
        """Pass on a send without waiting. Return False if it cannot go now. Raise ``OwnerGone`` if the owner ended."""
        ...

    def receive(self, timeout: float) -> list[SendOutcome]:
        """Return outcomes as soon as there are any, or none at the timeout. Raise ``OwnerGone`` if it has ended."""
        ...

    def drop(self) -> None:
        """Release a failed outlet. Its sends go to another one."""

    def close(self, timeout: float) -> None:
        """Release the outlet permanently. Unanswered sends are not repeated."""


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

    def done(first: int, error: Error | None, /) -> None:  # it may be called late, and keeps no pages until then
        settled(SendOutcome(sequence, log, first, error))

    origin = Origin(producer, sequence, send.again)
    store.append_bodies(topic.logs[send.partition], [Page(raw).unsealed() for raw in send.pages], done, origin)


class RemoteOutlet:
    """Passes the sends of one producer to the owner process."""

    def __init__(self, connection: ClientConnection, producer: bytes, timeout: float, *, strict: bool) -> None:
        self._connection = connection
        self._socket = connection.socket
        self._reader = FrameReader()
        self._pushing = threading.Lock()
        self._rest: deque[memoryview] = deque()
        self.access: object | None = None
        self._store = str(connection.owner["store"])
        request = {"call": "produce", "producer": producer.hex(), "strict": strict}
        connection.ask(request, timeout=timeout + ANSWER_GRACE_S)
        self._socket.setblocking(False)

    def send(self, send: NumberedSend) -> bool:
        with self._pushing:
            if self._rest:
                self._push()
            if self._rest:
                return False
            self._rest.append(memoryview(_frame(send)))
            self._push()
        return True

    def _push(self) -> None:
        try:
            while self._rest:
                sent = self._socket.send(self._rest[0])
                if sent == len(self._rest[0]):
                    self._rest.popleft()
                else:
                    self._rest[0] = self._rest[0][sent:]
        except BlockingIOError:
            return
        except OSError as error:
            raise OwnerGone from error

    def receive(self, timeout: float) -> list[SendOutcome]:
        self._wait(timeout)
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise OwnerGone from error
        if not data:
            raise OwnerGone
        self._reader.feed(data)
        outcomes = []
        while frame := self._reader.take():
            outcomes.append(self._outcome(frame[0]))
        return outcomes

    def _wait(self, timeout: float) -> None:
        with self._pushing:
            if self._rest:
                self._push()
            wanted = select.POLLIN | (select.POLLOUT if self._rest else 0)
        poll = select.poll()
        poll.register(self._socket, wanted)
        for _, events in poll.poll(1000 * timeout):
            if events & select.POLLOUT:
                with self._pushing:
                    self._push()

    def _outcome(self, header: FrameHeader) -> SendOutcome:
        if "error" in header:
            error = error_from_wire(header["error"])
            if not isinstance(error, Error):
                error = OutcomeUnknown(str(error))
            return SendOutcome(header["sequence"], None, 0, error)
        topic, partition, number = header["log"]
        log = Log(BACKEND, self._store, topic, partition, number)
        return SendOutcome(header["sequence"], log, header["first"], None)

    def drop(self) -> None:
        self._connection.close()

    def close(self, timeout: float) -> None:
        with suppress(OSError):
            self._socket.send(pack_frame({"call": "close"}))
        self._connection.close()


def _frame(send: NumberedSend) -> bytes:
    header = {
        "call": "append", "sequence": send.sequence, "topic": send.topic, "partition": send.partition,
        "pages": [len(page) for page in send.pages], "again": send.again,
    }  # fmt: skip
    return pack_frame(header, *send.pages)


Reopen = Callable[[bytes, Outlet | None, float], Outlet]
"""Opens an outlet for the producer of this name. With a failed outlet, opens one to the next owner."""


class ResendingSink:
    """The sink of one producer."""

    def __init__(self, reopen: Reopen, timeout: float) -> None:
        self._reopen = reopen
        self._name = uuid.uuid4().bytes
        self._lock = threading.Lock()
        self._serving = threading.Lock()
        self._sends: dict[int, NumberedSend] = {}  # unanswered, in order
        self._waiting: deque[NumberedSend] = deque()
        self._next = 0
        self._lost = False
        self._outlet = reopen(self._name, None, timeout)

    def append(self, topic: str, partition: int, bodies: Iterable[PageBody], settled: SendCallback) -> None:
        pages = [body.seal(0) for body in bodies]
        with self._lock:
            send = NumberedSend(self._next, topic, partition, pages, settled)
            self._next += 1
            self._sends[send.sequence] = send
            self._waiting.append(send)
            self._push()

    def _push(self) -> None:
        """Pass on the sends that may go now. The caller holds the lock."""
        try:
            while self._waiting and not self._lost:
                if self._waiting[0].sequence - next(iter(self._sends)) >= SLOT_COUNT:
                    return
                if not self._outlet.send(self._waiting[0]):
                    return
                send = self._waiting.popleft()
                send.sent = send.sent or time.monotonic()
        except OwnerGone:
            self._lost = True

    def serve(self, timeout: float) -> None:
        deadline = Deadline(timeout)
        if not self._serving.acquire(timeout=timeout):
            return
        try:
            if self._lost:
                self._send_again(timeout)
            outcomes = self._receive(deadline.remaining())
            if self._waiting:
                with self._lock:
                    self._push()
        finally:
            self._serving.release()
        for outcome in outcomes:
            self._settle(outcome)

    def _receive(self, timeout: float) -> list[SendOutcome]:
        try:
            return self._outlet.receive(timeout) if not self._lost else []
        except OwnerGone:
            self._lost = True
            return []

    def _settle(self, outcome: SendOutcome) -> None:
        with self._lock:
            send = self._sends.pop(outcome.sequence, None)
            self._push()
        if send is not None:
            send.settled(outcome.log, outcome.first, outcome.error)

    def _send_again(self, timeout: float) -> None:
        """Send unanswered sends to the next owner, if there is one yet."""
        self._give_up(lambda send: send.sent is not None and send.sent < time.monotonic() - RESEND_WITHIN_S)
        try:
            outlet = self._reopen(self._name, self._outlet, max(timeout, MIN_REOPEN_S))
        except (AlreadyOpen, ConnectError, Timeout):
            return
        except Error as error:  # a damaged store or a full disk, for instance: no process will own it
            self._give_up(lambda _: True, error)
            raise
        self._outlet.drop()
        with self._lock:
            self._outlet, self._lost = outlet, False
            self._waiting = deque(self._sends.values())
            for send in self._waiting:
                send.again = True
            self._push()

    def _give_up(self, hopeless: Callable[[NumberedSend], bool], reason: Error | None = None) -> None:
        """Settle these sends as unknown: owners forget old sends, so nothing can report whether they were stored."""
        with self._lock:
            lost = [send for send in self._sends.values() if hopeless(send)]
            self._waiting = deque(send for send in self._waiting if send not in lost)
        for send in lost:
            error: Error = OutcomeUnknown("the process that owned the store ended before it answered")
            error.__cause__ = reason
            if send.sent is None and reason is not None:
                error = reason
            self._settle(SendOutcome(send.sequence, None, 0, error))

    def ring(self) -> None:
        """Do nothing: only a thread inside ``serve`` settles sends."""

    def close(self, timeout: float) -> None:
        self._outlet.close(timeout)
