"""The thread that takes samples at an interval, and tells of each, or of why there is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import mqplug
from mqplug_cli._top.sample import Sample

Tell: TypeAlias = Callable[[Sample | Exception], None]


class Sampler:
    """Takes a sample every so many seconds. One that takes long is followed by a pause that is as long.

    So the backend is asked at most half of the time. Failures are told, and do not end it.
    """

    def __init__(self, take: Callable[[], Sample], tell: Tell, every: float) -> None:
        self._take = take
        self._tell = tell
        self._every = every
        self._wanted = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="mqplug-top", daemon=True)

    def start(self) -> None:
        """Begin, with a sample at once."""
        self._thread.start()

    def hurry(self) -> None:
        """Take the next sample now."""
        self._wanted.set()

    def end(self, timeout: float) -> None:
        """End it. Wait this long for a sample that is being taken."""
        self._ended = True
        self._wanted.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._ended:
            began = time.monotonic()
            self._step()
            spent = time.monotonic() - began
            self._wanted.wait(max(self._every - spent, spent))
            self._wanted.clear()

    def _step(self) -> None:
        outcome: Sample | Exception
        try:
            outcome = self._take()
        except Exception as error:  # noqa: BLE001 - told to whoever shows it, with its defects
            outcome = error
        if not self._ended:
            self._tell(outcome)


def is_outage(error: Exception) -> bool:
    """Return whether a failure may pass by itself, so that it is shown and tried again."""
    return isinstance(error, mqplug.Error)
