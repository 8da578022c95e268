"""An extension that raises ``KeyboardInterrupt`` while a producer's driver accepts messages."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from mqplug.spi import ProducerDriver, Run, Sending, hookimpl
from mqplug.spi.proxies import ProducerProxy


class Interrupts:
    """Raises ``KeyboardInterrupt`` once, just before or just after the driver of a producer accepts messages."""

    def __init__(self, *, late: bool) -> None:
        self.late = late
        self.armed = False

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self) -> Generator[None, ProducerDriver, ProducerDriver]:
        return _Interrupted((yield), self)

    def press(self, late: bool) -> None:
        """Raise ``KeyboardInterrupt``, if it is armed for this side of the call."""
        if self.armed and late is self.late:
            self.armed = False
            raise KeyboardInterrupt


class _Interrupted(ProducerProxy):
    def __init__(self, inner: ProducerDriver, interrupts: Interrupts) -> None:
        super().__init__(inner)
        self._interrupts = interrupts

    def send(self, sendings: Sequence[Sending]) -> None:
        self._interrupts.press(False)
        super().send(sendings)
        self._interrupts.press(True)

    def send_run(self, run: Run) -> None:
        self._interrupts.press(False)
        inner: Any = self.inner
        inner.send_run(run) if hasattr(inner, "send_run") else inner.send(run.sendings())
        self._interrupts.press(True)
