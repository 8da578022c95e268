"""Records the sends of a producer's driver, with the outcome of each message."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from mqplug import Error, Log
from mqplug.spi import Numbers, ProducerDriver, Sending
from mqplug.spi.proxies import ProducerProxy, SendingProxy
from mqplug_testing.recording._calls import Call, Outcome, Sent, column
from mqplug_testing.recording._recording import Recording, error_summary, record_call


class RecordedProducer(ProducerProxy):
    """A producer's driver whose calls are recorded. A ``send`` ends when the last of its messages is settled."""

    def __init__(self, inner: ProducerDriver, recording: Recording, member: str) -> None:
        super().__init__(inner)
        self._recording = recording
        self._member = member
        self._open: set[RecordedSend] = set()

    def send(self, sendings: Sequence[Sending]) -> None:
        batch = RecordedSend(self._recording, self._member, sendings, self._open)
        try:
            self.inner.send(batch.recorded)
        except BaseException as error:
            batch.end(error)
            raise

    def close(self, timeout: float) -> None:
        try:
            record_call(self._recording, self._member, "close", self.inner.close, timeout)
        finally:
            for batch in list(self._open):
                batch.end(None)


class RecordedSend:
    """The messages of one ``send`` on their way. The call is recorded before the core learns the last outcome."""

    def __init__(
        self, recording: Recording, member: str, sendings: Sequence[Sending], unfinished: set[RecordedSend]
    ) -> None:
        self._recording = recording
        self._keys = column([sending.key for sending in sendings], recording.payloads)
        self._values = column([sending.value for sending in sendings], recording.payloads)
        self._sendings = sendings
        self._outcomes: list[Outcome] = ["unknown"] * len(sendings)
        self._places: list[tuple[Log, Numbers] | None] = [None] * len(sendings)
        self._left = len(sendings)
        self._error: str | None = None
        self._lock = Lock()
        self._unfinished = unfinished
        unfinished.add(self)
        self._call: Call | None = recording.begin(member, "send", lasting=True, sent=self._sent())
        self.recorded = [Recorded(sending, self, row) for row, sending in enumerate(sendings)]

    def settle(self, row: int, outcome: Outcome, place: tuple[Log, Numbers] | None, error: Error | None) -> None:
        """Note the outcome of one message. The last one ends the call."""
        with self._lock:
            self._outcomes[row] = outcome
            self._places[row] = place
            self._error = self._error or (error_summary(error) if error is not None else None)
            self._left -= 1
            last = not self._left
        if last:
            self.end(None)

    def end(self, error: BaseException | None) -> None:
        """Record the call with the outcomes known now. Messages that are not settled stay unknown."""
        with self._lock:
            call, self._call = self._call, None
        self._unfinished.discard(self)
        if call is None:
            return
        outcomes = set(self._outcomes)
        outcome = outcomes.pop() if len(outcomes) == 1 else "unknown"
        text = error_summary(error) if error is not None else self._error
        self._recording.end(call, outcome, lasting=True, sent=self._sent(), error=text)

    def _sent(self) -> tuple[Sent, ...]:
        rows: dict[tuple[str, int, Log | None], list[int]] = {}
        for row, (sending, place) in enumerate(zip(self._sendings, self._places, strict=True)):
            rows.setdefault((sending.topic, sending.partition, place and place[0]), []).append(row)
        return tuple(self._group(*where, found) for where, found in rows.items())

    def _group(self, topic: str, partition: int, log: Log | None, rows: Sequence[int]) -> Sent:
        places = [self._places[row] for row in rows]
        return Sent(
            topic, partition, log, tuple(rows),
            tuple(self._keys[row] for row in rows),
            tuple(self._values[row] for row in rows),
            tuple(self._outcomes[row] for row in rows),
            tuple(place and place[1] for place in places),
        )  # fmt: skip


class Recorded(SendingProxy):
    """A message whose outcome is recorded."""

    __slots__ = ("_batch", "_row")

    def __init__(self, inner: Sending, batch: RecordedSend, row: int) -> None:
        super().__init__(inner)
        self._batch = batch
        self._row = row

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self._batch.settle(self._row, "ok", (log, coordinates), None)
        self.inner.stored(log, coordinates, detail)

    def failed(self, error: Error) -> None:
        self._batch.settle(self._row, "failed", None, error)
        self.inner.failed(error)

    def unknown(self, error: Error) -> None:
        self._batch.settle(self._row, "unknown", None, error)
        self.inner.unknown(error)
