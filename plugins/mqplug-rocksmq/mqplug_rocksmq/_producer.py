"""Producers: what is sent goes into the store together, as far as it waits there together.

Where a send is done on disk only, messages are collected while others are on their way there, and go as one when those
are safe. Elsewhere they are collected for a millisecond, or until somebody waits for one. So a sender who does not wait
gets large pages, and one who waits is not held up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from mqplug import Error, Log, OutcomeUnknown, PluginError
from mqplug.spi import Run, Sending
from mqplug_rocksmq._parcels import Loose, Packed
from mqplug_rocksmq._sinks import Sink

_ENOUGH: Final = 1000  # messages that go at once
_LINGER: Final = 0.001


class RocksMQProducer:
    """Sends to any topic of a store."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writing = threading.RLock()  # held from the choice of messages until they are stored: none overtakes
        self._counting = threading.Lock()
        self._collected: list[Sending] = []
        self._on_their_way = 0
        self._lingers = sink.lingers
        self._due = threading.Event()
        self._closed = False
        self._feeder: threading.Thread | None = None

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._counting:
            self._collected += sendings
            ready = len(self._collected) >= _ENOUGH or not (self._lingers or self._on_their_way)
        if ready:
            self._write()
        elif self._lingers:
            self._expect()

    def _expect(self) -> None:
        """Have what is collected go soon, whether or not anybody waits for it."""
        if self._feeder is None:
            self._feeder = threading.Thread(target=self._feed, name="mqplug-rocksmq-feed", daemon=True)
            self._feeder.start()
        if not self._due.is_set():  # which is cheaper than to set it
            self._due.set()

    def _feed(self) -> None:
        while not self._closed:
            self._due.wait()
            time.sleep(_LINGER)
            self._due.clear()
            self.flush(0)

    def _write(self) -> None:
        with self._writing:
            with self._counting:
                sendings, self._collected = self._collected, []
                self._on_their_way += 1
            logs: dict[tuple[str, int], list[Sending]] = {}
            for sending in sendings:
                logs.setdefault((sending.topic, sending.partition), []).append(sending)
            for (topic, partition), together in logs.items():
                self._append(topic, partition, Loose(together))
        self._arrived()

    def send_run(self, run: Run) -> None:
        """Store the columns of a batch as they are."""
        with self._writing:
            if self._collected:  # sent before
                self._write()
            self._append(run.topic, run.partition, Packed(run))

    def _append(self, topic: str, partition: int, parcel: Loose | Packed) -> None:
        def settled(log: Log | None, first: int, error: Error | None, /) -> None:
            if log is not None and error is None:
                parcel.stored(log, first)
            else:
                parcel.give_up(error or OutcomeUnknown("nobody knows what became of it"))
            self._arrived()

        with self._counting:
            self._on_their_way += 1
        try:
            self._sink.append(topic, partition, parcel.bodies(), settled)
        except Error as error:
            parcel.give_up(error)
            self._arrived()
        except Exception as error:  # noqa: BLE001 - a sender that is never told would wait for ever
            parcel.give_up(PluginError(f"messages could not be encoded: {error!r}"))
            self._arrived()

    def _arrived(self) -> None:
        with self._counting:
            self._on_their_way -= 1
            ready = not self._on_their_way and bool(self._collected)
        self._sink.ring()
        if ready:
            self._write()

    def pump(self, timeout: float) -> None:
        if self._lingers:
            with self._writing:
                self.flush(timeout)
        elif self._on_their_way:
            self._sink.serve(timeout)

    def flush(self, timeout: float) -> None:
        if self._collected:
            self._write()

    def close(self, timeout: float) -> None:
        self.flush(timeout)
        self._closed = True
        self._due.set()
        if self._feeder is not None:
            self._feeder.join(timeout)
        self._sink.close(timeout)
