"""The driver rules by name, the checks that several drivers share, and the record of broken rules.

docs/driver-rules.md says what each rule demands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any, Final, NoReturn

from mqplug import Log, PluginError, Position
from mqplug.spi import Connection, GroupPosition, Numbers

_STORING_CALLS = frozenset({"commit", "settle"})
_POLLING_CALLS = frozenset({"poll", "tend", "pause", "resume"})
_SERVING_CALLS = frozenset({"pump", "flush", "store"})
_STEPPING_CALLS = frozenset({"begin", "commit_step", "abort"})
OVERLAPS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(_POLLING_CALLS, _STORING_CALLS),
    **dict.fromkeys(_STORING_CALLS, _POLLING_CALLS),
    "send": _SERVING_CALLS,
    **dict.fromkeys(_SERVING_CALLS, _SERVING_CALLS | {"send"}),
    "pump": _SERVING_CALLS | _STEPPING_CALLS | {"send"},
    **dict.fromkeys(_STEPPING_CALLS, frozenset({"pump"})),
}
"""The calls that may run in another thread during each call. ``wake`` always may. A call not named here runs alone."""

CORE_RULES: Final = frozenset(
    {
        "overlap",
        "after-close",
        "close-last",
        "slices",
        "held",
        "commit-with-group",
        "settle-shared",
        "settle-once",
        "in-transaction",
    }
)
DRIVER_RULES: Final = frozenset(
    {"listener", "settled-once", "stored-log", "ascending", "most", "next-position", "delivers-held", "paused",
     "after-seek", "position-lost", "attempts", "still-holds", "assigned-once", "acked-ranges", "possible", "behind",
     "further", "answers", "settled-by-end"}
)  # fmt: skip


class Rules:
    """The rules of one connection's drivers. ``broken`` lists every broken rule, even if no caller saw the error."""

    def __init__(self, connection: Connection | None = None) -> None:
        self.broken: list[str] = []
        self._is_possible = None if connection is None else connection.is_possible
        self._probed = False
        self._open: set[object] = set()
        self._lock = Lock()

    def breach(self, rule: str, what: str) -> NoReturn:
        """Note a broken rule and raise it."""
        raise self.note(rule, what)

    def note(self, rule: str, what: str) -> PluginError:
        """Note a broken rule and return its error, to be raised where the core sees it."""
        text = f"driver rule {rule!r}: {what}"
        self.broken.append(text)
        return PluginError(text, fix="Read docs/driver-rules.md, or run: mqplug docs driver-rules")

    def opened(self, driver: object) -> None:
        """Note that a driver was opened."""
        with self._lock:
            self._open.add(driver)

    def closed(self, driver: object) -> None:
        """Note that a driver was closed."""
        with self._lock:
            self._open.discard(driver)

    def check_closing(self) -> None:
        """Check that no driver is open when the connection is closed."""
        with self._lock:
            left = len(self._open)
        if left:
            self.breach("close-last", f"the connection was closed with {left} producers and consumers still open")

    def check_possible(self, coordinates: Numbers) -> None:
        """Check that ``is_possible`` accepts coordinates that the driver issued and refuses those of another length."""
        if self._is_possible is None:
            return
        if not self._is_possible(coordinates):
            self.breach("possible", f"the driver issued {coordinates}, which its is_possible refuses")
        if not self._probed:
            self._probed = True
            for strange in ((), (*coordinates, 0)):
                if self._is_possible(strange):
                    self.breach(
                        "possible",
                        f"is_possible accepts {strange}, but the driver issues {coordinates}",
                    )

    def check_position(self, rule: str, log: Log, position: Any) -> None:
        """Check that a value is a possible position of this log."""
        if not isinstance(position, Position) or position.log != log:
            self.breach(rule, f"{position!r} is not a position of {log!r}")
        self.check_possible(position.coordinates)

    def check_group_position(self, log: Log, stored: GroupPosition) -> None:
        """Check that the acked ranges ascend, do not overlap, and start at or after the position."""
        self.check_position("acked-ranges", log, stored.position)
        before = None
        for first, last in stored.acked:
            if first > last or first < stored.position.coordinates or (before is not None and first <= before):
                self.breach("acked-ranges", f"the ranges {stored.acked} do not fit the position {stored.position!r}")
            before = last


class RunningCalls:
    """The calls that currently run in one driver."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._lock = Lock()
        self._running: list[tuple[str, int]] = []
        self._closed = False

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Run a call if no other thread's call forbids it. The core may call from inside a listener's call."""
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
        """Return whether one of these calls runs in this thread."""
        me = get_ident()
        return any(name in names and thread == me for name, thread in self._running)
