"""Ctrl-C and SIGTERM: raised in the main thread, raised again if Python dropped one, and held back within a block."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self

AGAIN_S: Final = 0.01
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_seen: Final[set[int]] = set()


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


def raise_interrupts() -> None:
    """Raise SIGTERM as Ctrl-C is raised, and raise both again where Python dropped them.

    Python may call signal handlers anywhere, also in a callback of the garbage collector, which cannot raise: the
    interrupt would be printed and lost.
    """
    before = sys.unraisablehook

    def unraisable(dropped: Any) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            before(dropped)
        elif threading.main_thread().is_alive():  # false when the interpreter ends
            number = signal.SIGTERM if isinstance(dropped.exc_value, Terminated) else signal.SIGINT
            again = threading.Timer(AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, number))
            again.daemon = True
            again.start()

    sys.unraisablehook = unraisable
    signal.signal(signal.SIGTERM, _terminate)
    _seen.clear()


def was_terminated() -> bool:
    """Return whether SIGTERM arrived, even if a client library turned it into a Ctrl-C, as Pulsar's does."""
    return signal.SIGTERM in _seen


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    _seen.add(number)
    raise Terminated


class HeldInterrupts:
    """A block that holds back a first interrupt until its end or ``let_through``. A second one is raised at once."""

    def __init__(self) -> None:
        self._holding = True
        self._noted: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in SIGNALS}
            self._before = {number: handler for number, handler in handlers.items() if callable(handler)}
        for number in self._before:
            signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holding = False
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._raise_noted()

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Raise the interrupt that was held back, and each one that arrives within the block."""
        self._holding = False
        try:
            self._raise_noted()
            yield
        finally:
            self._holding = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._holding and self._noted is None:
            self._noted = number
        else:
            self._before[number](number, frame)

    def _raise_noted(self) -> None:
        number, self._noted = self._noted, None
        if number is not None:
            self._before[number](number, None)
