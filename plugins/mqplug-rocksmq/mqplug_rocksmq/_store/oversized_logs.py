"""Which logs have got so much more than they may keep that retention is to look at them at once.

It costs an append one look into a table. All others wait for the next round, which looks at every log there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from mqplug_rocksmq._engine.log_state import LogState

_LEAST_MARGIN: Final = 1 << 20


class Crowd:
    """Logs that are too large by an eighth. Any thread."""

    def __init__(self) -> None:
        self._too_large: dict[int, float] = {}  # by log: unknown ones are to be looked at
        self._waiting: deque[LogState] = deque()

    def grew(self, logs: Iterable[LogState]) -> bool:
        """Whether one of these logs, which were written to, is to be looked at."""
        found = [log for log in logs if log.size >= self._too_large.get(log.number, 0)]
        for log in found:
            self._too_large[log.number] = inf  # until somebody looked
            self._waiting.append(log)
        return bool(found)

    def take(self) -> Iterator[LogState]:
        """Yield the logs that are to be looked at."""
        while self._waiting:
            yield self._waiting.popleft()

    def looked(self, log: LogState, dropped: int, limit: int | None) -> None:
        """Somebody looked at a log, of which so many bytes are gone, and may keep so many (None is no limit)."""
        margin = inf if limit is None else limit + max(_LEAST_MARGIN, limit // 8)
        self._too_large[log.number] = dropped + margin

    def forget(self, logs: Iterable[LogState]) -> None:
        """Keep in mind these logs, and no others."""
        numbers = {log.number for log in logs}
        for gone in [number for number in self._too_large if number not in numbers]:
            del self._too_large[gone]
