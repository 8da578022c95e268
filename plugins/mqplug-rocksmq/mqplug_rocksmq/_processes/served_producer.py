"""A client process's producer in the owner: it stores the client's pages as they are."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug import ConnectError, Corrupt, Error, MessageTooLarge
from mqplug_rocksmq._processes.codec import error_to_wire
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.owner_services import UNCOUNTED_BYTES, SessionConnection
from mqplug_rocksmq._processes.resending import NumberedSend, SendOutcome, store_numbered_send
from mqplug_rocksmq._processes.served_consumer import answer_first, hold_rings, ring_held
from mqplug_rocksmq._store.repeated_requests import SLOT_COUNT


def _no_callback(*_: object) -> None:
    """Do nothing: the outcome goes over the socket."""


class ServedProducer:
    """Stores the sends of one producer. If *strict*, answers a send only when it is on disk."""

    silence: float | None = None

    def __init__(self, connection: SessionConnection, request: FrameHeader) -> None:
        self._connection = connection
        self._store = connection.server.store
        self._producer = bytes.fromhex(request["producer"])
        self._strict = bool(request["strict"]) and self._store.settings.sync != "always"
        if len(self._producer) != 16:
            raise ConnectError(f"a producer's name has 16 bytes, not {len(self._producer)}")
        self._left = False
        self._unsynced: list[SendOutcome] = []
        connection.send_frame({})
        self._store.deduplication.join(self._producer)

    def serve(self, header: FrameHeader, body: bytes) -> None:
        """Store one send. The answer follows once it is safe."""
        if header["call"] == "close":
            self._sync()
            self.leave(for_good=True)
            self._connection.hang_up()
            return
        partition, pages = int(header["partition"]), cut_pages(header["pages"], body)
        send = NumberedSend(int(header["sequence"]), header["topic"], partition, pages, _no_callback)
        send.again = bool(header["again"])
        if len(body) <= UNCOUNTED_BYTES:
            hold_rings()
        try:
            self._store.engine.retried(
                lambda: store_numbered_send(self._store, self._producer, send, self._settled), None
            )
        except (Error, ValueError, LookupError) as error:
            self._settled(SendOutcome(send.sequence, None, 0, not_stored(error)))
        finally:
            ring_held()
        if len(self._unsynced) >= SLOT_COUNT or not self._connection.more_came:
            self._sync()

    def _settled(self, outcome: SendOutcome) -> None:
        answer_first()
        if self._strict and outcome.error is None:
            self._unsynced.append(outcome)
        else:
            self._answer(outcome)

    def _sync(self) -> None:
        """Sync the sends that arrived together, with a single sync."""
        outcomes, self._unsynced = self._unsynced, []
        if not outcomes:
            return
        failure: Error | None = None
        try:
            self._store.sync()
        except Error as error:
            failure = error
        for outcome in outcomes:
            self._answer(outcome._replace(error=failure))

    def _answer(self, outcome: SendOutcome) -> None:
        if outcome.error is not None or outcome.log is None:
            error = error_to_wire(outcome.error or Error("lost"))
            self._connection.send_frame_nowait({"sequence": outcome.sequence, "error": error})
            return
        log = outcome.log
        place = [log.topic, log.partition, log.incarnation]
        self._connection.send_frame_nowait({"sequence": outcome.sequence, "log": place, "first": outcome.first})

    def leave(self, *, for_good: bool) -> None:
        if not self._left:
            self._left = True
            self._store.deduplication.leave(self._producer, for_good=for_good)


def cut_pages(lengths: Sequence[int], body: bytes) -> list[bytes]:
    """Return the pages in the body of a frame."""
    pages, at = [], 0
    for length in lengths:
        pages.append(body[at : at + length])
        at += length
    if at != len(body) or not pages:
        raise ConnectError(f"a send of {len(pages)} pages declares {at} bytes, but has {len(body)}")
    return pages


def not_stored(error: Exception) -> Error:
    """Return the error of a send that is certainly not stored."""
    if isinstance(error, Corrupt):
        return ConnectError(f"a send was changed in transit to the owner process: {error.message}", backend="rocksmq")
    return error if isinstance(error, Error) else MessageTooLarge(str(error), backend="rocksmq")
