"""The native producers that one producer uses: the one with the largest batches, and others for smaller batches."""

from __future__ import annotations

from threading import Lock

from confluent_kafka import KafkaException

from mqplug_kafka._cluster.errors import error_from_native
from mqplug_kafka._cluster.shared_producer import SharedProducer, SharedProducers

SLICE_S = 0.005  # how long the reports of one are waited for, while others have records on their way, too


class NativeProducers:
    """The native producers of one producer, each acquired when it is first needed."""

    def __init__(self, shared_producers: SharedProducers) -> None:
        self._shared_producers = shared_producers
        self._lock = Lock()
        largest = shared_producers.acquire()
        self._acquired = {largest.batch_bytes: largest}
        self._former: list[SharedProducer] = []  # with outdated certificates, until all their reports are in

    @property
    def largest(self) -> SharedProducer:
        """The one whose batches are the largest."""
        return self.of(None)

    def of(self, batch_bytes: int | None) -> SharedProducer:
        """Return the one whose batches are not larger than this."""
        most = self._shared_producers.batch_bytes
        wanted = min(most, batch_bytes or most)
        found = self._acquired.get(wanted)
        if found is None or found.outdated:
            with self._lock:
                found = self._acquired.get(wanted)
                if found is None or found.outdated:
                    former, found = found, self._shared_producers.acquire(wanted)
                    self._acquired[wanted] = found
                    if former is not None:
                        self._former.append(former)
        return found

    def pump(self, timeout: float) -> None:
        """Serve delivery reports. Raise a typed error if the native client ended with a fatal one."""
        try:
            self._pump(timeout)
        except KafkaException as error:
            raise error_from_native(error, "the brokers refuse all that this client sends") from error

    def _pump(self, timeout: float) -> None:
        all_of_them = self._all()
        if len(all_of_them) == 1:
            all_of_them[0].pump(timeout)
            return
        busy = [each for each in all_of_them if each.busy]
        for each in busy:
            each.pump(timeout if len(busy) == 1 else min(timeout, SLICE_S))
        self._release_former()

    def _all(self) -> list[SharedProducer]:
        return [*self._acquired.values(), *self._former]

    def _release_former(self) -> None:
        """Release those with outdated certificates that have nothing on the way."""
        if not self._former:
            return
        with self._lock:
            done = [each for each in self._former if not each.busy]
            self._former = [each for each in self._former if each.busy]
        for each in done:
            self._shared_producers.release(each, 0)

    def flush(self, timeout: float) -> None:
        """Make the native clients send what lingers there."""
        for each in self._all():
            each.hasten(timeout)

    def release(self, timeout: float) -> None:
        """Release them all."""
        for each in self._all():
            self._shared_producers.release(each, timeout)
