"""A producer's way to another process: sends go out without waiting, answers come in when somebody asks for them."""

from __future__ import annotations

import select
import threading
from collections import deque
from contextlib import suppress
from typing import Final

from mqplug import Error, Log, OutcomeUnknown
from mqplug_rocksmq._processes.client_connection import RECEIVE_BYTES, ClientConnection, OwnerGone
from mqplug_rocksmq._processes.codec import error_from_json
from mqplug_rocksmq._processes.frames import FrameHeader, FrameReader, pack_frame
from mqplug_rocksmq._processes.outlets import NumberedSend, SendOutcome
from mqplug_rocksmq._settings import BACKEND

ANSWER_GRACE_S: Final = 0.1  # seconds that an answer may need beside what the owner was given


class RemoteOutlet:
    """Sends the parcels of one producer to the owner."""

    def __init__(self, link: ClientConnection, producer: bytes, timeout: float, *, strict: bool) -> None:
        self._link = link
        self._socket = link.socket
        self._inbox = FrameReader()
        self._pushing = threading.Lock()
        self._rest: deque[memoryview] = deque()
        self.home: object | None = None
        self._store = str(link.owner["store"])
        link.ask({"call": "produce", "producer": producer.hex(), "strict": strict}, timeout=timeout + ANSWER_GRACE_S)
        self._socket.setblocking(False)

    def send(self, parcel: NumberedSend) -> bool:
        with self._pushing:
            if self._rest:
                self._push()
            if self._rest:
                return False
            self._rest.append(memoryview(_frame(parcel)))
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
        self._inbox.feed(data)
        outcomes = []
        while frame := self._inbox.take():
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
            error = error_from_json(header["error"])
            if not isinstance(error, Error):
                error = OutcomeUnknown(str(error))
            return SendOutcome(header["sequence"], None, 0, error)
        topic, partition, number = header["log"]
        return SendOutcome(
            header["sequence"], Log(BACKEND, self._store, topic, partition, number), header["first"], None
        )

    def drop(self) -> None:
        self._link.close()

    def close(self, timeout: float) -> None:
        with suppress(OSError):
            self._socket.send(pack_frame({"call": "close"}))
        self._link.close()


def _frame(parcel: NumberedSend) -> bytes:
    header = {
        "call": "append", "sequence": parcel.sequence, "topic": parcel.topic, "partition": parcel.partition,
        "pages": [len(page) for page in parcel.pages], "again": parcel.again,
    }  # fmt: skip
    return pack_frame(header, *parcel.pages)
