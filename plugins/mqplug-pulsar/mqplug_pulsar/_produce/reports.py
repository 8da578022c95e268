"""The two ways in which a producer hands records to the native client, and learns what became of them. One is chosen.

``plain_reports`` calls the native client for each message. ``native_reports`` calls the compiled part for each run.
"""

from __future__ import annotations

from typing import Protocol

from mqplug.spi import Run, Sending
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._produce.native_reports import NativeReports
from mqplug_pulsar._produce.plain_reports import PlainReports
from mqplug_pulsar._produce.sent import Lane, Sent
from mqplug_pulsar._settings import PulsarSettings


class Reports(Protocol):
    """Makes what lanes send, and waits for the reports on it."""

    def record(self, sending: Sending, lane: Lane) -> Sent:
        """Return a record as something to send."""
        ...

    def run(self, run: Run, lane: Lane) -> Sent:
        """Return a run as something to send."""
        ...

    def wait(self, timeout: float) -> None:
        """Wait until something is settled, and settle what is reported. The thread that pumps calls it."""

    def ring(self) -> None:
        """Make ``wait`` return: something was settled."""


def open_reports(settings: PulsarSettings) -> Reports:
    """Return the reports of a new producer; ``ConfigError`` if the settings require what cannot be used."""
    native = compiled_part.find(settings, "sending")
    return PlainReports() if native is None else NativeReports(native, in_order=settings.batching != "by_key")
