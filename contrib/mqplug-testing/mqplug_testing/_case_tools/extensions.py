"""Extensions that cases connect with: timestamps of foreign producers, and Ctrl-C within a driver's call."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from mqplug.spi import Batch, ConsumerDriver, ProducerDriver, Run, Sending, hookimpl
from mqplug.spi.proxies import ColumnsProxy, ConsumerProxy, ProducerProxy


class ForeignTimes:
    """Gives these times to the first messages that a consumer gets, one each; later messages keep theirs."""

    def __init__(self, *milliseconds: int) -> None:
        self.milliseconds = milliseconds

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self) -> Generator[None, ConsumerDriver, ConsumerDriver]:
        return _ForeignConsumer((yield), self.milliseconds)


class _ForeignConsumer(ConsumerProxy):
    def __init__(self, inner: ConsumerDriver, milliseconds: Sequence[int]) -> None:
        super().__init__(inner)
        self._left = list(milliseconds)

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        return [self._changed(batch) for batch in self.inner.poll(most, timeout)]

    def _changed(self, batch: Batch) -> Batch:
        times = self._left[: len(batch)]
        del self._left[: len(batch)]
        return _ForeignColumns(batch, [*times, *batch.timestamps[len(times) :]]).as_batch() if times else batch


class _ForeignColumns(ColumnsProxy):
    def __init__(self, batch: Batch, times: Sequence[int]) -> None:
        super().__init__(batch)
        self._times = times

    def timestamps(self) -> Sequence[int]:
        return self._times

    def log_times(self) -> Sequence[int]:
        return self._times


class Interrupts:
    """Raises ``KeyboardInterrupt`` once, right before or right after a driver accepts messages or is polled."""

    def __init__(self, *, late: bool) -> None:
        self.late = late
        self.armed = False

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self) -> Generator[None, ProducerDriver, ProducerDriver]:
        return _Interrupted((yield), self)

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self) -> Generator[None, ConsumerDriver, ConsumerDriver]:
        return _InterruptedPoll((yield), self)

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
        inner.send_run(run)
        self._interrupts.press(True)


class _InterruptedPoll(ConsumerProxy):
    def __init__(self, inner: ConsumerDriver, interrupts: Interrupts) -> None:
        super().__init__(inner)
        self._interrupts = interrupts

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        self._interrupts.press(False)
        batches = super().poll(most, timeout)
        if any(map(len, batches)):
            self._interrupts.press(True)
        return batches
