"""Checks the rules of a driver that sends: the core's calls, and how it settles records.

In a transaction, sends lie between begin and end, and the end settles all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from threading import Lock
from typing import Any

from mqplug import Error, Log, PluginError
from mqplug.spi import (
    GroupMove,
    Numbers,
    ProducerDriver,
    Run,
    Sending,
    TransactionDriver,
    TransactionMark,
)
from mqplug.spi.proxies import ProducerProxy, SendingProxy, TransactionProxy
from mqplug_testing.debug._rules import Rules, RunningCalls


class WatchedProducer(ProducerProxy):
    """A producer's driver with checks.

    If the driver breaks a rule in a thread of its own, the core's next call raises the error, and each call after it.
    """

    def __init__(self, inner: ProducerDriver, rules: Rules) -> None:
        super().__init__(inner)
        self._calls = RunningCalls(rules)
        self._outcomes = Outcomes(rules)
        self.stores_at_once = inner.stores_at_once
        rules.opened(self)

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._call("send"):
            self.inner.send([WatchedSending(each, self._outcomes) for each in sendings])

    def send_run(self, run: Run) -> None:
        watched: Any = WatchedRun(run, self._outcomes)  # the rest of a Run comes from __getattr__
        with self._call("send"):
            self.inner.send_run(watched)

    def store(self, sending: Sending) -> None:
        watched = WatchedSending(sending, self._outcomes, in_order=False)  # several threads may store at once
        with self._call("store"):
            self.inner.store(watched)
        if not watched.settled:
            self._calls.rules.breach("settled-once", "store returned before the record was settled")

    def pump(self, timeout: float) -> None:
        with self._call("pump"):
            self.inner.pump(timeout)

    def flush(self, timeout: float) -> None:
        with self._call("flush"):
            self.inner.flush(timeout)

    def close(self, timeout: float) -> None:
        try:
            with self._call("close"):
                self.inner.close(timeout)
        finally:
            self._calls.rules.closed(self)

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        with self._calls.call(name):
            yield
        if self._outcomes.broken is not None:
            raise self._outcomes.broken.with_traceback(None)


class Outcomes:
    """The outcomes of one producer's records, checked as they arrive in any thread."""

    def __init__(self, rules: Rules) -> None:
        self.broken: PluginError | None = None
        self._rules = rules
        self._lock = Lock()
        self._numbers = count()
        self._latest: dict[Log, tuple[int, Numbers]] = {}  # the stored record that was sent last
        self.unsettled = 0  # records and runs

    def number(self) -> int:
        """Return the next number in the order of sending."""
        return next(self._numbers)

    def count(self, change: int) -> None:
        """Count a record or a run that was handed over, or settled."""
        with self._lock:
            self.unsettled += change

    def report(self, rule: str, what: str) -> None:
        """Note that the driver broke a rule, for the core's next call to raise."""
        error = self._rules.note(rule, what)
        self.broken = self.broken or error

    def check_stored(self, sent: Sending | Run, log: Log, coordinates: Numbers, number: int | None) -> None:
        """Check that a record was stored in its topic and partition, after the records sent before it."""
        if log.topic != sent.topic or sent.partition not in {-1, log.partition}:
            self.report("stored-log", f"a record for {sent.topic}[{sent.partition}] was stored in {log!r}")
        try:
            self._rules.check_possible(coordinates)
        except PluginError as error:
            self.broken = self.broken or error
        if number is None:
            return
        with self._lock:
            latest, stored_at = self._latest.get(log, (-1, ()))
            if number > latest:
                self._latest[log] = number, coordinates
        if latest >= 0 and (number > latest) != (coordinates > stored_at):
            self.report("ascending", f"{coordinates} and {stored_at} of {log!r} are not in the order of sending")


class WatchedSending(SendingProxy):
    """A record with a check that it is settled once."""

    __slots__ = ("_number", "_outcomes", "settled")

    def __init__(self, inner: Sending, outcomes: Outcomes, *, in_order: bool = True) -> None:
        super().__init__(inner)
        self._outcomes = outcomes
        self._number = outcomes.number() if in_order else None
        self.settled = ""
        outcomes.count(1)

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self._settle("stored")
        self._outcomes.check_stored(self, log, coordinates, self._number)
        super().stored(log, coordinates, detail)

    def failed(self, error: Error) -> None:
        self._settle("failed")
        super().failed(error)

    def unknown(self, error: Error) -> None:
        self._settle("unknown")
        super().unknown(error)

    def _settle(self, how: str) -> None:
        if self.settled:
            self._outcomes.report("settled-once", f"a record for {self.topic!r} is {how}, but already {self.settled}")
        else:
            self._outcomes.count(-1)
        self.settled = how


class WatchedRun:
    """A run with a check that it is settled once, or each of its records once."""

    def __init__(self, inner: Run, outcomes: Outcomes) -> None:
        self._inner = inner
        self._outcomes = outcomes
        self._settled = ""
        self._numbers = [outcomes.number() for _ in range(len(inner))]
        self._sendings: list[WatchedSending] | None = None
        outcomes.count(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __len__(self) -> int:
        return len(self._inner)

    def sendings(self) -> Sequence[Sending]:
        if self._sendings is None:
            self._outcomes.count(-1)  # each of its records is counted instead
            self._sendings = [WatchedSending(each, self._outcomes) for each in self._inner.sendings()]
        return self._sendings

    def stored(self, log: Log, coordinates: Sequence[Numbers], details: Sequence[Numbers] | None = None) -> None:
        self._settle("stored")
        if len(coordinates) != len(self):
            self._outcomes.report("stored-log", f"{len(coordinates)} ids for a run of {len(self)} records")
        for number, each in zip(self._numbers, coordinates, strict=False):
            self._outcomes.check_stored(self._inner, log, each, number)
        self._inner.stored(log, coordinates, details)

    def failed(self, error: Error) -> None:
        self._settle("failed")
        self._inner.failed(error)

    def unknown(self, error: Error) -> None:
        self._settle("unknown")
        self._inner.unknown(error)

    def _settle(self, how: str) -> None:
        if self._settled:
            self._outcomes.report("settled-once", f"a run for {self.topic!r} is {how}, but already {self._settled}")
        elif self._sendings is None:
            self._outcomes.count(-1)
        self._settled = how


class WatchedTransactions(WatchedProducer, TransactionProxy):
    """A transaction's driver with checks."""

    def __init__(self, inner: TransactionDriver, rules: Rules) -> None:
        super().__init__(inner, rules)
        self._is_open = False

    def begin(self, mark: TransactionMark | None, timeout: float) -> TransactionMark | None:
        self._check("begin", is_open=False)
        with self._call("begin"):
            repeated = self.inner.begin(mark, timeout)
        self._is_open = True
        return repeated

    def commit(self, moves: Sequence[GroupMove], timeout: float) -> None:
        self._check("commit", is_open=True)
        self._is_open = False
        with self._call("commit_step"):
            self.inner.commit(moves, timeout)
        self._check_settled("commit")

    def abort(self, timeout: float) -> None:
        self._is_open = False
        with self._call("abort"):
            self.inner.abort(timeout)
        self._check_settled("abort")

    def send(self, sendings: Sequence[Sending]) -> None:
        self._check("send", is_open=True)
        super().send(sendings)

    def send_run(self, run: Run) -> None:
        self._check("send_run", is_open=True)
        super().send_run(run)

    def _check(self, call: str, *, is_open: bool) -> None:
        if self._is_open != is_open:
            state = "no transaction is open" if is_open else "a transaction is open"
            self._calls.rules.breach("in-transaction", f"{call} was called while {state}")

    def _check_settled(self, call: str) -> None:
        if left := self._outcomes.unsettled:
            self._calls.rules.breach("settled-by-end", f"{call} returned while {left} records are not settled")
