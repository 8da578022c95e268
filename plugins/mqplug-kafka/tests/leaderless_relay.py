"""A relay to a broker. It loses an answer, then plays a broker that does not lead its partition yet."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

PRODUCE = 0
NOT_LEADER = 6
TOGETHER_S = 1.0  # produce requests that arrive within it count as one volley


class LeaderlessRelay:
    """Passes frames between clients and a broker."""

    def __init__(self, port, broker_port):
        self.broker_port = broker_port
        self.topic = b""
        """The topic of the produce requests. It has one partition."""
        self.stored_answer = None
        """An answer to a produce request for this topic."""
        self.loses_next = False
        """Whether the next produce request is passed on without its answer. After that, no client can connect."""
        self.lost = threading.Event()
        self.refusals = 0
        """How many produce requests of the next volley are refused."""
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def begin(self, topic):
        """Pass on everything, for another topic."""
        self.topic = topic.encode()
        self.stored_answer = None
        self.lost.clear()

    def come_back(self, refusals):
        """Accept clients again, and refuse their first produce requests."""
        self.refusals = refusals
        self.lost.clear()

    def _accept(self):
        with suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                if self.lost.is_set():
                    client.close()
                else:
                    _Conversation(self, client)


class _Conversation:
    """A client's connection and the matching one to the broker."""

    def __init__(self, relay, client):
        self._relay, self._client = relay, client
        self._broker = socket.create_connection(("127.0.0.1", relay.broker_port))
        self._produced = set()  # the numbers of unanswered produce requests
        self._together = []
        self._lock = threading.Lock()
        for source, take in ((client, self._take_request), (self._broker, self._take_answer)):
            threading.Thread(target=self._run, args=(source, take), daemon=True).start()

    def _run(self, source, take):
        with suppress(OSError), source.makefile("rb") as frames:
            while size := frames.read(4):
                take(frames.read(*struct.unpack(">i", size)))
        for each in (self._client, self._broker):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()

    def _take_request(self, request):
        key, _, number = struct.unpack_from(">hhi", request)
        if key != PRODUCE:
            _send(self._broker, request)
            return
        with self._lock:
            if self._relay.loses_next and self._produced:
                return  # only the first request of a volley arrives
            self._produced.add(number)
            if not self._relay.refusals:
                _send(self._broker, request)
                return
            self._together.append(request)
            if len(self._together) == 1:
                threading.Timer(TOGETHER_S, self._refuse).start()
        if len(self._together) > self._relay.refusals:
            self._refuse()

    def _refuse(self):
        """Refuse the first produce requests of the volley, and pass on the others."""
        with self._lock, suppress(OSError):
            refusals, self._relay.refusals = self._relay.refusals, 0
            together, self._together = self._together, []
            for request in together[:refusals]:
                _send(self._client, self._refusal(request))
            for request in together[refusals:]:
                _send(self._broker, request)

    def _refusal(self, request):
        """Return the stored answer with this request's number, an error and no offset."""
        answer = bytearray(self._relay.stored_answer)
        answer[:4] = request[4:8]
        error = answer.index(self._relay.topic) + len(self._relay.topic) + 1 + 4  # after partitions and partition
        struct.pack_into(">hq", answer, error, NOT_LEADER, -1)
        return answer

    def _take_answer(self, answer):
        (number,) = struct.unpack_from(">i", answer)
        with self._lock:
            is_produced = number in self._produced
            self._produced.discard(number)
        if is_produced and self._relay.loses_next:
            self._relay.lost.set()
            self._relay.loses_next = False
            raise ConnectionError
        if is_produced and self._relay.stored_answer is None:
            self._relay.stored_answer = answer
        _send(self._client, answer)


def _send(target, frame):
    target.sendall(struct.pack(">i", len(frame)) + frame)
