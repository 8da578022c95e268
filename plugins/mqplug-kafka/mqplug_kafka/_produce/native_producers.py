"""The native producers that one producer uses: the one with the largest batches, and others for smaller batches."""

from __future__ import annotations

from mqplug_kafka._cluster.shared_producer import SharedProducer, SharedProducers

SLICE_S = 0.005  # how long the reports of one are waited for, while others have records on their way, too


class NativeProducers:
    """The native producers of one producer, each acquired when it is first needed."""

    def __init__(self, shared_producers: SharedProducers) -> None:
        self._shared_producers = shared_producers
        self.largest = shared_producers.acquire()
        """The one whose batches are the largest."""
        self._acquired = {self.largest.batch_bytes: self.largest}

    def of(self, batch_bytes: int | None) -> SharedProducer:
        """Return the one whose batches are not larger than this."""
        wanted = min(self.largest.batch_bytes, batch_bytes or self.largest.batch_bytes)
        if wanted not in self._acquired:
            self._acquired[wanted] = self._shared_producers.acquire(wanted)
        return self._acquired[wanted]

    def pump(self, timeout: float) -> None:
        """Serve delivery reports."""
        if len(self._acquired) == 1:
            self.largest.pump(timeout)
            return
        busy = [each for each in tuple(self._acquired.values()) if each.busy]
        for each in busy:
            each.pump(timeout if len(busy) == 1 else min(timeout, SLICE_S))

    def flush(self, timeout: float) -> None:
        """Make the native clients send what lingers there."""
        for each in tuple(self._acquired.values()):
            each.hasten(timeout)

    def release(self, timeout: float) -> None:
        """Release them all."""
        for each in self._acquired.values():
            self._shared_producers.release(each, timeout)
