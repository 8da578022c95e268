"""What is stored together: messages that were sent one by one, or a batch; as columns, and settled as one."""

from __future__ import annotations

from collections.abc import Sequence

from mqplug import Error, Log, OutcomeUnknown
from mqplug.spi import Run, Sending
from mqplug_rocksmq import _clock
from mqplug_rocksmq._page import Columns


class Loose:
    """Messages that were sent one by one to one partition."""

    __slots__ = ("_sendings",)

    def __init__(self, sendings: Sequence[Sending]) -> None:
        self._sendings = sendings

    def columns(self) -> Columns:
        """Return them as columns."""
        now, sendings = _clock.now_ms(), self._sendings
        times = [now if sending.timestamp is None else sending.timestamp for sending in sendings]
        headers = [sending.headers for sending in sendings]
        values, keys = [sending.value for sending in sendings], [sending.key for sending in sendings]
        return Columns(times, values, keys, headers if any(headers) else None)

    def stored(self, log: Log, first: int) -> None:
        """They lie at this offset and the following."""
        for offset, sending in enumerate(self._sendings, first):
            sending.stored(log, (offset,))

    def give_up(self, error: Error) -> None:
        """They are not stored, or nobody knows."""
        for sending in self._sendings:
            _give_up(sending, error)


class Packed:
    """A batch for one partition."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def columns(self) -> Columns:
        """Return it as columns."""
        now, run = _clock.now_ms(), self._run
        if run.timestamps is None:
            times = [now] * len(run)
        else:
            times = [now if each is None else each for each in run.timestamps]
        return Columns(times, run.values, run.keys, run.headers)

    def stored(self, log: Log, first: int) -> None:
        """It lies at this offset and the following."""
        self._run.stored(log, list(zip(range(first, first + len(self._run)), strict=True)))

    def give_up(self, error: Error) -> None:
        """It is not stored, or nobody knows."""
        _give_up(self._run, error)


def _give_up(sent: Sending | Run, error: Error) -> None:
    if isinstance(error, OutcomeUnknown):
        sent.unknown(error)
    else:
        sent.failed(error)
