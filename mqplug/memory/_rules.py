"""The driver rules, enforced: what ``debug=true`` puts around the memory backend to find out the core.

Each rule has a name, which stands in docs/driver-rules.md beside what it demands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Final, NoReturn

from mqplug._batch import Batch
from mqplug._errors import PluginError
from mqplug._log import Log
from mqplug._position import Position
from mqplug.spi import (
    ConsumerDriver,
    ConsumerOptions,
    ConsumerProxy,
    GroupPosition,
    Listener,
    ListenerProxy,
    Numbers,
    ProducerDriver,
    ProducerProxy,
    Run,
    Sending,
    Settlement,
)

SLICE: Final = 0.1 + 1e-9

_STORING = frozenset({"commit", "settle"})
_POLLING = frozenset({"poll", "tend", "pause", "resume"})
OVERLAPS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(_POLLING, _STORING),
    **dict.fromkeys(_STORING, _POLLING),
    "send": frozenset({"pump", "flush"}),
    "pump": frozenset({"pump", "flush", "send"}),
    "flush": frozenset({"pump", "flush", "send"}),
}
"""What may run in another thread beside each call. ``wake`` may always; what is not named here runs alone."""

RULES: Final = frozenset(
    {"overlap", "after-close", "close-last", "slices", "listener", "held", "commit-with-group", "settle-shared",
     "settle-once"}
)  # fmt: skip


class Rules:
    """Watches the drivers of one connection. ``broken`` keeps what was found, also where nobody saw the error."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self._open: set[object] = set()
        self._lock = Lock()

    def breach(self, rule: str, what: str) -> NoReturn:
        """Report a broken rule."""
        text = f"driver rule {rule!r}: {what}"
        self.broken.append(text)
        raise PluginError(text, fix="See docs/driver-rules.md")

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


class _Calls:
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


class CheckedProducer(ProducerProxy):
    """A producer whose caller is watched."""

    def __init__(self, inner: ProducerDriver, rules: Rules) -> None:
        super().__init__(inner)
        self._calls = _Calls(rules)
        rules.opened(self)

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._calls.call("send"):
            self.inner.send(sendings)

    def send_run(self, run: Run) -> None:
        with self._calls.call("send"):
            ProducerProxy(self.inner).send_run(run)

    def pump(self, timeout: float) -> None:
        with self._calls.call("pump"):
            self.inner.pump(timeout)

    def flush(self, timeout: float) -> None:
        with self._calls.call("flush"):
            self.inner.flush(timeout)

    def close(self, timeout: float) -> None:
        with self._calls.call("close"):
            self.inner.close(timeout)
        self._calls.rules.closed(self)


class CheckedListener(ListenerProxy):
    """The core's listener, which may hear of something in ``poll`` and ``tend`` only; knows what is held."""

    def __init__(self, inner: Listener, rules: Rules, logs: Sequence[Log]) -> None:
        super().__init__(inner)
        self.calls = _Calls(rules)
        self.held = set(logs)

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        self._check()
        self.held |= set(positions)
        super().assigned(positions)

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        self._check()
        states = super().revoked(logs)
        self.held -= set(logs)
        return states

    def lost(self, logs: Sequence[Log]) -> None:
        self._check()
        self.held -= set(logs)
        super().lost(logs)

    def _check(self) -> None:
        if not self.calls.runs_here("poll", "tend"):
            self.calls.rules.breach("listener", "the listener was called outside poll and tend")


class CheckedConsumer(ConsumerProxy):
    """A consumer whose caller is watched."""

    def __init__(self, inner: ConsumerDriver, listener: CheckedListener, options: ConsumerOptions) -> None:
        super().__init__(inner)
        self._calls = listener.calls
        self._rules = listener.calls.rules
        self._listener = listener
        self._group = options.group
        self._shares = options.mode in {"shared", "key_shared"}
        self._out: dict[Log, Counter[Numbers]] = {}  # how often each was handed out and not settled
        self._rules.opened(self)

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        with self._calls.call("poll"):
            if most < 1 or not 0 <= timeout <= SLICE:
                self._rules.breach("slices", f"poll({most}, {timeout:g}): at least 1 message, at most 0.1 s")
            batches = self.inner.poll(most, timeout)
        if self._shares:
            for batch in batches:
                self._out.setdefault(batch.log, Counter()).update(batch.coordinates)
        return batches

    def tend(self, timeout: float) -> None:
        with self._calls.call("tend"):
            self.inner.tend(timeout)

    def pause(self, logs: Sequence[Log]) -> None:
        with self._calls.call("pause"):
            self._check_held("pause", logs)
            self.inner.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        with self._calls.call("resume"):
            self._check_held("resume", logs)
            self.inner.resume(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        with self._calls.call("seek"):
            self._check_held("seek", positions)
            self.inner.seek(positions, timeout)
            for log in positions:
                self._out.pop(log, None)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        with self._calls.call("commit"):
            if self._group is None or self._shares:
                self._rules.breach("commit-with-group", "commit is for members that hold logs for themselves")
            self._check_held("commit", positions)
            self.inner.commit(positions, timeout)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> None:
        with self._calls.call("settle"):
            if not self._shares:
                self._rules.breach("settle-shared", "settle is for the modes shared and key_shared")
            said = {log: Counter([*each.acked, *(at for at, _ in each.returned)]) for log, each in settled.items()}
            for log, messages in said.items():
                if not messages <= self._out.setdefault(log, Counter()):
                    self._rules.breach("settle-once", f"{messages - self._out[log]} of {log!r} are not out")
            super().settle(settled, timeout)
            for log, messages in said.items():
                self._out[log] -= messages

    def close(self, timeout: float) -> None:
        with self._calls.call("close"):
            self.inner.close(timeout)
        self._rules.closed(self)

    def _check_held(self, name: str, logs: Sequence[Log] | Mapping[Log, object]) -> None:
        for log in logs:
            if log not in self._listener.held:
                self._rules.breach("held", f"{name} names {log!r}, which this consumer does not hold")
