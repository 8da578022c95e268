"""What a producer in another process sends: pages, which are stored as they are."""

from __future__ import annotations

from mqplug import ConnectError, Corrupt, Error, MessageTooLarge
from mqplug_rocksmq._processes.codec import error_to_json
from mqplug_rocksmq._processes.frames import FrameHeader
from mqplug_rocksmq._processes.outlets import NumberedSend, SendOutcome, store_numbered_send
from mqplug_rocksmq._processes.session import SessionConnection
from mqplug_rocksmq._store.deduplication import SLOTS


def _nobody(*_: object) -> None:
    """Whoever waits is told over the socket."""


class ProducerSession:
    """Stores what one producer sends. *strict*: it is told that something is stored when that is on disk."""

    silence: float | None = None

    def __init__(self, guest: SessionConnection, request: FrameHeader) -> None:
        self._guest = guest
        self._store = guest.server.store
        self._producer = bytes.fromhex(request["producer"])
        self._strict = bool(request["strict"]) and self._store.settings.sync != "always"
        if len(self._producer) != 16:
            raise ConnectError("the name of a producer has 16 bytes")
        self._left = False
        self._unsynced: list[SendOutcome] = []
        guest.say({})
        self._store.origins.join(self._producer)

    def serve(self, header: FrameHeader, body: bytes) -> None:
        """Store one parcel; the answer follows when it is safe."""
        if header["call"] == "close":
            self._sync()
            self.leave(for_good=True)
            self._guest.hang_up()
            return
        parcel = NumberedSend(
            int(header["sequence"]), header["topic"], int(header["partition"]), _cut(header, body), _nobody
        )
        parcel.again = bool(header["again"])
        try:
            store_numbered_send(self._store, self._producer, parcel, self._settled)
        except (Error, ValueError, LookupError) as error:
            self._settled(SendOutcome(parcel.sequence, None, 0, _proven(error)))
        if len(self._unsynced) >= SLOTS or not self._guest.more_came:
            self._sync()

    def _settled(self, outcome: SendOutcome) -> None:
        if self._strict and outcome.error is None:
            self._unsynced.append(outcome)
        else:
            self._tell(outcome)

    def _sync(self) -> None:
        """Put on disk together what came together."""
        outcomes, self._unsynced = self._unsynced, []
        if not outcomes:
            return
        failure: Error | None = None
        try:
            self._store.sync()
        except Error as error:
            failure = error
        for outcome in outcomes:
            self._tell(outcome._replace(error=failure))

    def _tell(self, outcome: SendOutcome) -> None:
        if outcome.error is not None or outcome.log is None:
            self._guest.remark({"sequence": outcome.sequence, "error": error_to_json(outcome.error or Error("lost"))})
            return
        log = outcome.log
        place = [log.topic, log.partition, log.incarnation]
        self._guest.remark({"sequence": outcome.sequence, "log": place, "first": outcome.first})

    def leave(self, *, for_good: bool) -> None:
        if not self._left:
            self._left = True
            self._store.origins.leave(self._producer, for_good=for_good)


def _cut(header: FrameHeader, body: bytes) -> list[bytes]:
    pages, at = [], 0
    for length in header["pages"]:
        pages.append(body[at : at + length])
        at += length
    if at != len(body) or not pages:
        raise ConnectError("a parcel does not have the length that it says")
    return pages


def _proven(error: Exception) -> Error:
    """The error of what is certainly not stored."""
    if isinstance(error, Corrupt):
        return ConnectError(f"what was sent was not what arrived: {error.message}", backend="rocksmq")
    return error if isinstance(error, Error) else MessageTooLarge(str(error), backend="rocksmq")
