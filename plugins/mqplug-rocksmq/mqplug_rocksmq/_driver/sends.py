"""Sends to one partition, stored as pages and settled as one: single records, or a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

from mqplug import Error, Log, OutcomeUnknown
from mqplug.spi import Numbers, Run, Sending
from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._format.page import PageBody, PageColumns, encode_single, page_bodies

LINGER_S: Final = 0.001  # for which messages that no sender waits for are collected, so that they share pages
MAX_COLLECTED_MESSAGES: Final = 1000  # that are stored together
PORTION_BYTES: Final = 1 << 20  # of single sends that are stored together


def sendings_by_partition(sendings: Sequence[Sending]) -> Iterable[tuple[tuple[str, int], Sequence[Sending]]]:
    """Group sends by topic and partition."""
    logs: dict[tuple[str, int], list[Sending]] = {}
    for sending in sendings:
        logs.setdefault((sending.topic, sending.partition), []).append(sending)
    return logs.items()


def portions(sendings: Sequence[Sending]) -> Iterator[Sequence[Sending]]:
    """Cut the sends for one partition into portions that fit into a request to the store's owner."""
    first = size = 0
    for index, sending in enumerate(sendings):
        size += len(sending.value or b"")
        if size >= PORTION_BYTES:
            yield sendings[first : index + 1]
            first, size = index + 1, 0
    if first < len(sendings):
        yield sendings[first:]


class SingleSends:
    """Single sends to one partition."""

    __slots__ = ("_sendings",)

    def __init__(self, sendings: Sequence[Sending]) -> None:
        self._sendings = sendings

    def bodies(self) -> list[PageBody]:
        """Return them as pages."""
        now, sendings = clock.now_ms(), self._sendings
        if len(sendings) == 1 and not sendings[0].headers:
            (one,) = sendings
            return [encode_single(now if one.timestamp is None else one.timestamp, one.key, one.value)]
        times = [now if sending.timestamp is None else sending.timestamp for sending in sendings]
        headers = [sending.headers for sending in sendings]
        values, keys = [sending.value for sending in sendings], [sending.key for sending in sendings]
        keyed = keys if keys.count(None) < len(keys) else None
        return page_bodies(PageColumns(times, values, keyed, headers if any(headers) else None))

    def stored(self, log: Log, first: int) -> None:
        """Report them as stored, from this offset on."""
        for offset, sending in enumerate(self._sendings, first):
            sending.stored(log, (offset,))

    def give_up(self, error: Error) -> None:
        """Report them as failed, or their outcome as unknown."""
        for sending in self._sendings:
            _give_up(sending, error)


class RunSend:
    """A batch for one partition."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def bodies(self) -> list[PageBody]:
        """Return it as pages."""
        if arrays := self._run.arrow(("timestamp", "key", "value", "headers")):
            from mqplug_rocksmq._format.from_arrow_to_pages import arrow_page_bodies

            return arrow_page_bodies(arrays, clock.now_ms())
        return page_bodies(self.columns())

    def columns(self) -> PageColumns:
        """Return it as columns."""
        now, run = clock.now_ms(), self._run
        times = [now] * len(run)
        if run.timestamps is not None:
            times = [now if each is None else each for each in run.timestamps]
        return PageColumns(times, run.values, run.keys, run.headers, _ends(run))

    def stored(self, log: Log, first: int) -> None:
        """Report it as stored, from this offset on."""
        self._run.stored(log, OffsetRange(range(first, first + len(self._run))))

    def give_up(self, error: Error) -> None:
        """Report it as failed, or its outcome as unknown."""
        _give_up(self._run, error)


class OffsetRange(Sequence[Numbers]):
    """Consecutive offsets as coordinates, each created on access."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: range) -> None:
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> Numbers: ...
    @overload
    def __getitem__(self, index: slice) -> OffsetRange: ...
    def __getitem__(self, index: int | slice) -> Numbers | OffsetRange:
        found = self._offsets[index]
        return OffsetRange(found) if isinstance(found, range) else (found,)

    def __iter__(self) -> Iterator[Numbers]:
        return zip(self._offsets, strict=False)


def _ends(run: Run) -> Sequence[int] | None:
    """Return where each value ends when all are joined, if the records have values only."""
    return run.ends if run.keys is None and run.headers is None else None


def _give_up(sent: Sending | Run, error: Error) -> None:
    if isinstance(error, OutcomeUnknown):
        sent.unknown(error)
    else:
        sent.failed(error)
