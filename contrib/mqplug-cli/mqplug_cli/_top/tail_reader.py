"""Reads the end of a topic as it grows, in a thread: the last messages at first, then those that come."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import mqplug
from mqplug_cli._output.error_text import error_line
from mqplug_cli._top.tail_messages import TailMessage, tail_message

FIRST: Final = 50  # of each partition
KEPT: Final = 1000
MOST_PER_S: Final = 1000  # more are not read: nobody can follow them, and the backend has other work
_BATCH: Final = 200
_POLL_S: Final = 0.5
_RETRY_S: Final = 1.0
_PREFETCH_BYTES: Final = 4 * 1024 * 1024


class TailReader:
    """The last messages of a topic. When they come faster than people can look, some are skipped, which is counted."""

    def __init__(self, client: mqplug.Client, topic: str, timeout: float) -> None:
        self.changes = 0
        self.skips = 0
        self.asked = False  # whether all was read that was there at the beginning
        self.failure: str | None = None
        self.defect: Exception | None = None
        self._client = client
        self._topic = topic
        self._timeout = timeout
        self._kept: deque[TailMessage] = deque(maxlen=KEPT)
        self._count = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqplug-top-tail", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def end(self) -> None:
        """Stop reading soon. Do not wait for it."""
        self._ended.set()

    def messages(self) -> Sequence[TailMessage]:
        """Return the messages that are kept, oldest first."""
        return tuple(self._kept.copy())

    def _run(self) -> None:
        start: mqplug.Start = mqplug.last(FIRST)
        while not self._ended.is_set():
            try:
                self._read(start)
            except mqplug.Closed:
                return
            except mqplug.Error as error:
                self.failure = error_line(error)
            except Exception as error:  # noqa: BLE001 - told by the screen
                self.defect = error
                return
            self.changes += 1
            start = mqplug.LATEST
            self._ended.wait(_RETRY_S)

    def _read(self, start: mqplug.Start) -> None:
        with self._consumer(start) as consumer:
            self.failure = None
            ends = self._client.resolve(self._topic, mqplug.LATEST, timeout=self._timeout)
            began, read = time.monotonic(), 0
            while not self._ended.is_set():
                batch = consumer.receive_many(_BATCH, timeout=_POLL_S)
                self._keep(batch)
                self._look_at_end(consumer, ends)
                read += len(batch)
                if time.monotonic() >= began + 1:
                    began, read = time.monotonic(), 0
                elif read > MOST_PER_S:
                    self._skip(consumer, began + 1)
                    began, read = time.monotonic(), 0

    def _look_at_end(self, consumer: mqplug.Consumer, ends: Mapping[int, mqplug.Position]) -> None:
        if not self.asked:
            here = consumer.position(self._topic)
            self.asked = all(here[partition] >= end for partition, end in ends.items() if partition in here)
            self.changes += self.asked

    @contextmanager
    def _consumer(self, start: mqplug.Start) -> Iterator[mqplug.Consumer]:
        consumer = self._client.consumer(
            self._topic, start=start, missing="next", prefetch_bytes=_PREFETCH_BYTES, timeout=self._timeout
        )
        try:
            yield consumer
        finally:
            consumer.close(_POLL_S)

    def _skip(self, consumer: mqplug.Consumer, until: float) -> None:
        """Wait, and go on at the end if there is more than is shown in a moment."""
        self._ended.wait(max(0.0, until - time.monotonic()))
        consumer.seek(mqplug.last(FIRST), missing="next", timeout=self._timeout)
        self.skips += 1

    def _keep(self, batch: mqplug.Batch) -> None:
        for message in batch:
            self._count += 1
            self._kept.append(tail_message(self._count, message))
        self.changes += bool(batch)
