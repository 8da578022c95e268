"""Records that were sent one by one, collected for a moment so that a driver gets them together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from mqplug._model.errors import Closed
from mqplug._model.outcome import OutcomeUnknown
from mqplug.spi._drivers import Sending


class SendBuffer:
    """Records on their way to a driver that is cheaper to call with many of them.

    They are handed over when ``max_records`` are collected, on ``flush``, or in a thread of its own ``linger_s`` after
    the first of them. A driver makes ``add`` its own ``send``. ``hand_over`` gets them in order, with ``lock`` held.
    """

    __slots__ = (
        "_closed", "_due", "_hand_over", "_hand_overs", "_linger_s", "_max_records", "_name", "_thread",
        "collected", "lock",
    )  # fmt: skip

    def __init__(
        self, hand_over: Callable[[list[Sending]], None], *, linger_s: float, max_records: int, thread_name: str
    ) -> None:
        self.lock = threading.Lock()
        """Held from the choice of records until they are handed over, so that none overtakes another."""
        self.collected: deque[Sending] = deque()
        """Records that wait; only the holder of the lock takes them out."""
        self._hand_over = hand_over
        self._hand_overs = 0
        self._linger_s = linger_s
        self._max_records = max_records
        self._name = thread_name
        self._due = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, sendings: Sequence[Sending]) -> None:
        """Collect records, which may hand over all that are collected. One thread at a time."""
        self.collected.extend(sendings)
        if len(self.collected) >= self._max_records:
            self.flush()
        elif not self._due.is_set():  # which is cheaper than to set it
            self._due.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._hand_over_when_due, name=self._name, daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Hand over what is collected; return when nothing is being handed over either."""
        if self.collected or self.lock.locked():
            with self.lock:
                self.hand_over_locked()

    def hand_over_locked(self) -> None:
        """Hand over what is collected. The caller holds the lock."""
        collected = self.collected
        taken = [collected.popleft() for _ in range(len(collected))]
        if not taken:
            return
        self._hand_overs += 1
        try:
            self._hand_over(taken)
        except BaseException:  # Ctrl-C: nothing else holds these, and their senders would wait forever
            for sending in taken:
                sending.unknown(OutcomeUnknown("the hand-over of the record was interrupted"))
            raise

    def close(self, timeout: float) -> None:
        """Hand over what is collected, and end the thread."""
        self.flush()
        self._closed = True
        self._due.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._hand_over = _refuse  # else a cycle with the driver keeps its connection alive

    def _hand_over_when_due(self) -> None:
        while not self._closed:
            self._due.wait()
            before = self._hand_overs
            time.sleep(self._linger_s)
            if self._hand_overs == before or not self.collected:  # else a busy sender hands over more at a time
                self._due.clear()
                self.flush()


def _refuse(sendings: list[Sending]) -> None:
    for sending in sendings:
        sending.failed(Closed("the producer was closed before it handed the record over"))
