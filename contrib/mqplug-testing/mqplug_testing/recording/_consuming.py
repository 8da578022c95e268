"""Records the calls of a consumer's driver and of its listener: batches, positions and assignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerDriver, GroupPosition, Listener, Settlement
from mqplug.spi.proxies import ConsumerProxy, ListenerProxy
from mqplug_testing.recording._calls import Received, Settled, column
from mqplug_testing.recording._recording import Recording, as_group_positions, error_summary, record_call


class RecordedConsumer(ConsumerProxy):
    """A consumer's driver whose calls are recorded, except ``wake``, ``tend``, and polls that return nothing."""

    def __init__(self, inner: ConsumerDriver, recording: Recording, member: str) -> None:
        super().__init__(inner)
        self._recording = recording
        self._member = member

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        call = self._recording.begin(self._member, "poll", lasting=False)
        try:
            batches = self.inner.poll(most, timeout)
        except BaseException as error:
            self._recording.end(call, "failed", lasting=False, error=error_summary(error))
            raise
        if batches:
            received = tuple(map(self._received, batches))
            self._recording.end(call, "ok", lasting=False, received=received)
        return batches

    def _received(self, batch: Batch) -> Received:
        kind = self._recording.payloads
        return Received(
            batch.log, tuple(batch.coordinates), column(batch.keys, kind), column(batch.values, kind),
            tuple(batch.attempts), batch.next_position,
        )  # fmt: skip

    def pause(self, logs: Sequence[Log]) -> None:
        with self._recording.call(self._member, "pause", logs=tuple(logs)):
            self.inner.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        with self._recording.call(self._member, "resume", logs=tuple(logs)):
            self.inner.resume(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        with self._recording.call(self._member, "seek", lasting=True, positions=as_group_positions(positions)):
            self.inner.seek(positions, timeout)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        with self._recording.call(self._member, "commit", lasting=True, positions=tuple(positions.values())):
            self.inner.commit(positions, timeout)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int | None:
        known = tuple(
            Settled(log, tuple(each.acked), tuple(coordinates for coordinates, _ in each.returned))
            for log, each in settled.items()
        )
        with self._recording.call(self._member, "settle", lasting=True, settled=known):
            return super().settle(settled, timeout)

    def close(self, timeout: float) -> None:
        record_call(self._recording, self._member, "close", self.inner.close, timeout)


class RecordedListener(ListenerProxy):
    """A listener whose calls are recorded, with the positions that the core returns for revoked logs."""

    def __init__(self, inner: Listener, recording: Recording, member: str) -> None:
        super().__init__(inner)
        self._recording = recording
        self._member = member

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        with self._recording.call(self._member, "assigned", logs=tuple(positions), positions=tuple(positions.values())):
            self.inner.assigned(positions)

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        with self._recording.call(self._member, "revoked", logs=tuple(logs)) as found:
            states = self.inner.revoked(logs)
            found["positions"] = tuple(states.values())
            return states

    def lost(self, logs: Sequence[Log]) -> None:
        with self._recording.call(self._member, "lost", logs=tuple(logs)):
            self.inner.lost(logs)
