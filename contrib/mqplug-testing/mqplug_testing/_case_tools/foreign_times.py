"""An extension that gives received messages other times, as if foreign producers had sent them."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from mqplug.spi import Batch, ConsumerDriver, hookimpl
from mqplug.spi.proxies import ColumnsProxy, ConsumerProxy


class ForeignTimes:
    """Gives the first messages that a consumer gets these times, one each; those behind them keep theirs."""

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
