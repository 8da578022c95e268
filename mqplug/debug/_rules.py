"""The driver rules that a watcher knows, and what it found.

Each rule has a name, which stands in docs/driver-rules.md beside what it demands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any, Final, NoReturn

from mqplug._model.errors import PluginError
from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.spi import Connection, GroupPosition, Numbers
from mqplug.spi._drivers import checks_coordinates

_STORING = frozenset({"commit", "settle"})
_POLLING = frozenset({"poll", "tend", "pause", "resume"})
_SERVING = frozenset({"pump", "flush", "store"})
OVERLAPS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(_POLLING, _STORING),
    **dict.fromkeys(_STORING, _POLLING),
    "send": _SERVING,
    **dict.fromkeys(_SERVING, _SERVING | {"send"}),
}
"""What may run in another thread beside each call. ``wake`` may always; what is not named here runs alone."""

CORE_RULES: Final = frozenset(
    {"overlap", "after-close", "close-last", "slices", "held", "commit-with-group", "settle-shared", "settle-once"}
)
DRIVER_RULES: Final = frozenset(
    {"listener", "settled-once", "stored-log", "ascending", "most", "next-position", "delivers-held", "paused",
     "after-seek", "position-lost", "attempts", "still-holds", "assigned-once", "acked-ranges", "possible", "behind",
     "answers"}
)  # fmt: skip


class Rules:
    """Watches the drivers of one connection. ``broken`` keeps what was found, also where nobody saw the error."""

    def __init__(self, connection: Connection | None = None) -> None:
        self.broken: list[str] = []
        self._is_possible = None if connection is None or not checks_coordinates(connection) else connection.is_possible
        self._probed = False
        self._open: set[object] = set()
        self._lock = Lock()

    def breach(self, rule: str, what: str) -> NoReturn:
        """Report a broken rule."""
        raise self.note(rule, what)

    def note(self, rule: str, what: str) -> PluginError:
        """Keep a broken rule, to be raised where the core sees it."""
        text = f"driver rule {rule!r}: {what}"
        self.broken.append(text)
        return PluginError(text, fix="See docs/driver-rules.md, or mqplug docs driver-rules")

    def opened(self, driver: object) -> None:
        """One more driver is open."""
        with self._lock:
            self._open.add(driver)

    def closed(self, driver: object) -> None:
        """A driver was closed."""
        with self._lock:
            self._open.discard(driver)

    def check_closing(self) -> None:
        """The connection is closed last."""
        with self._lock:
            left = len(self._open)
        if left:
            self.breach("close-last", f"the connection is closed with {left} producers and consumers open")

    def check_possible(self, coordinates: Numbers) -> None:
        """What a driver gives out it holds for possible, and nothing of another length."""
        if self._is_possible is None:
            return
        if not self._is_possible(coordinates):
            self.breach("possible", f"the driver gives out {coordinates}, and its is_possible refuses them")
        if not self._probed:
            self._probed = True
            for strange in ((), (*coordinates, 0)):
                if self._is_possible(strange):
                    self.breach("possible", f"is_possible takes {strange}, where {coordinates} are usual")

    def check_position(self, rule: str, log: Log, position: Any) -> None:
        """A position is of the log that it is said of, and possible."""
        if not isinstance(position, Position) or position.log != log:
            self.breach(rule, f"{position!r} is given as a position of {log!r}")
        self.check_possible(position.coordinates)

    def check_stand(self, log: Log, stands: GroupPosition) -> None:
        """The acked ranges ascend, overlap nowhere, and lie behind the position."""
        self.check_position("acked-ranges", log, stands.position)
        before = None
        for first, last in stands.acked:
            if first > last or first < stands.position.coordinates or (before is not None and first <= before):
                self.breach("acked-ranges", f"the ranges {stands.acked} behind {stands.position!r}")
            before = last


class RunningCalls:
    """The calls that run in one driver."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._lock = Lock()
        self._running: list[tuple[str, int]] = []
        self._closed = False

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Run a call, if it may run now. What the core does from inside a listener's call, it may."""
        mine = (name, get_ident())
        with self._lock:
            self._check(*mine)
            self._running.append(mine)
            self._closed |= name == "close"
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(mine)

    def _check(self, name: str, thread: int) -> None:
        if self._closed:
            self.rules.breach("after-close", f"{name} was called after close")
        allowed = OVERLAPS.get(name, frozenset())
        for other, elsewhere in self._running:
            if other not in allowed and elsewhere != thread:
                self.rules.breach("overlap", f"{name} was called while {other} runs in another thread")

    def runs_here(self, *names: str) -> bool:
        """Whether one of these calls runs in this thread."""
        me = get_ident()
        return any(name in names and thread == me for name, thread in self._running)
