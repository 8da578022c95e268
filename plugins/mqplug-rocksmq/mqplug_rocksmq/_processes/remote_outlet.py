"""An outlet to the owner process: sends go out without waiting, outcomes are read when they are asked for."""

from __future__ import annotations

import select
import threading
from collections import deque
from contextlib import suppress

from mqplug import Error, Log, OutcomeUnknown
from mqplug_rocksmq._processes.client_connection import ANSWER_GRACE_S, RECEIVE_BYTES, ClientConnection, OwnerGone
from mqplug_rocksmq._processes.codec import error_from_wire
from mqplug_rocksmq._processes.frames import FrameHeader, FrameReader, pack_frame
from mqplug_rocksmq._processes.outlets import NumberedSend, SendOutcome
from mqplug_rocksmq._settings import BACKEND


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
