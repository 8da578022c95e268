"""A progress bar on standard error, with rate and time left, for what lasts over two seconds on a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

QUIET_S: Final = 2.0
_REFRESH_S: Final = 0.2


class Progress:
    """The progress of some work. Nothing is shown where standard error is no terminal."""

    def __init__(self, label: str, total: int | None, unit: str = "messages") -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._done = 0
        self._began = time.monotonic()
        self._next = self._began + QUIET_S if sys.stderr.isatty() else float("inf")
        self._bar: RichProgress | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._show()
            self._bar.stop()

    def advance(self, count: int = 1) -> None:
        """Count what was done."""
        self._done += count
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _REFRESH_S
            self._show()

    def _show(self) -> None:
        if self._bar is None:
            self._bar = self._begin()
        rate = self._done / (time.monotonic() - self._began)
        self._bar.update(self._bar.task_ids[0], completed=self._done, rate=f"{rate:,.0f}", refresh=True)

    def _begin(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress as RichProgress, TextColumn, TimeRemainingColumn

        bar = RichProgress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} " + self._unit),
            TextColumn("{task.fields[rate]}/s"), TimeRemainingColumn(),
            console=Console(stderr=True), auto_refresh=False, transient=True,
        )  # fmt: skip
        bar.add_task(self._label, total=self._total, rate="")
        bar.start()
        return bar
