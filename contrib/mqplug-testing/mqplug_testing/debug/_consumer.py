"""Checks the rules of a consumer's driver: the core's calls, the batches, and the calls of the listener."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from mqplug import Batch, Log, Position, PositionLost
from mqplug.spi import ConsumerDriver, ConsumerOptions, GroupPosition, Listener, Numbers, Settlement
from mqplug.spi.proxies import ConsumerProxy, ListenerProxy
from mqplug_testing.debug._rules import Rules, RunningCalls

MAX_POLL_S: Final = 0.1 + 1e-9  # the longest timeout of a poll, plus room for rounding


class WatchedListener(ListenerProxy):
    """The core's listener with checks: a driver calls it only inside ``poll`` and ``tend``. It knows the held logs."""

    def __init__(self, inner: Listener, rules: Rules, options: ConsumerOptions) -> None:
        super().__init__(inner)
        self.calls = RunningCalls(rules)
        self.calls_received = 0
        self.paused: set[Log] = set()
        self.reading_at: dict[Log, Numbers] = {}  # the position at which reading of each log continues, if known
        self._group = options.group
        if options.group is None:
            self.held = set(options.logs)
            self.move(options.start if isinstance(options.start, Mapping) else {})
        else:
            self.held = set()

    def move(self, positions: Mapping[Log, Position]) -> None:
        """Continue reading at these positions."""
        self.reading_at |= {log: position.coordinates for log, position in positions.items()}

    def follow(self, options: ConsumerOptions) -> None:
        """Hold exactly these logs, without a group; with one, the driver reports when it gets and loses them."""
        if self._group is None and isinstance(options.start, Mapping):
            new = set(options.logs) - self.held
            self._forget(list(self.held - set(options.logs)))
            self.held |= new
            self.move({log: position for log, position in options.start.items() if log in new})

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        self._check()
        rules = self.calls.rules
        for log, stored in positions.items():
            if log in self.held:
                rules.breach("assigned-once", f"{log!r} was assigned, but this consumer already holds it")
            rules.check_group_position(log, stored)
        self.held |= set(positions)
        self.move({log: stored.position for log, stored in positions.items()})
        super().assigned(positions)

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        self._check()
        states = super().revoked(logs)
        self._forget(logs)
        return states

    def lost(self, logs: Sequence[Log]) -> None:
        self._check()
        self._forget(logs)
        super().lost(logs)

    def _forget(self, logs: Sequence[Log]) -> None:
        self.held -= set(logs)
        self.paused -= set(logs)

    def _check(self) -> None:
        self.calls_received += 1
        if not self.calls.runs_here("poll", "tend"):
            self.calls.rules.breach("listener", "the listener was called outside poll and tend")
        if self._group is None:
            self.calls.rules.breach("listener", "the listener was called, but the consumer has no group")


class WatchedConsumer(ConsumerProxy):
    """A consumer's driver with checks of both sides: the core and the driver."""

    def __init__(self, inner: ConsumerDriver, listener: WatchedListener, options: ConsumerOptions) -> None:
        super().__init__(inner)
        self._calls = listener.calls
        self._rules = listener.calls.rules
        self._listener = listener
        self._group = options.group
        self._shares = options.shares
        self._unsettled: dict[Log, Counter[Numbers]] = {}  # deliveries of each message that are not settled yet
        self._counting = threading.Lock()  # of the unsettled: polls and settles may overlap
        self._lost_at: int | None = None  # the listener's calls_received when still_holds last returned False
        self._rules.opened(self)

    # deliveries --------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        with self._calls.call("poll"):
            if most < 1 or not 0 <= timeout <= MAX_POLL_S:
                self._rules.breach(
                    "slices", f"poll({most}, {timeout:g}) is out of range: at least 1 message, at most 0.1 s"
                )
            try:
                batches = self.inner.poll(most, timeout)
            except PositionLost as error:
                self._check_lost(error)
                raise
        if (size := sum(map(len, batches))) > most:
            self._rules.breach("most", f"poll({most}, {timeout:g}) returned {size} messages")
        for batch in batches:
            self._check_batch(batch)
            if self._shares:
                with self._counting:
                    self._unsettled.setdefault(batch.log, Counter()).update(batch.coordinates)
        return batches

    def _check_batch(self, batch: Batch) -> None:
        log, next_position, breach = batch.log, batch.next_position, self._rules.breach
        if log not in self._listener.held:
            breach("delivers-held", f"the driver delivered a batch of {log!r}, which this consumer does not hold")
        if log in self._listener.paused:
            breach("paused", f"the driver delivered a batch of {log!r}, which is paused")
        self._rules.check_position("next-position", log, next_position)
        if len(batch):
            self._check_messages(log, list(batch.coordinates), next_position.coordinates)
        if min(batch.attempts, default=1) < 1:
            breach("attempts", f"a message of {log!r} has attempt {min(batch.attempts)}; attempts count from 1")
        if not self._shares:
            if next_position.coordinates < self._listener.reading_at.get(log, next_position.coordinates):
                breach(
                    "next-position", f"{next_position!r} lies before {self._listener.reading_at[log]}, already passed"
                )
            self._listener.move({log: next_position})

    def _check_messages(self, log: Log, coordinates: list[Numbers], next_position: Numbers) -> None:
        first, last = coordinates[0], coordinates[-1]
        expected = None if self._shares else self._listener.reading_at.get(log)
        if expected is not None and first < expected:
            self._rules.breach("after-seek", f"got {first} of {log!r}, but reading continues at {expected}")
        for one, other in pairwise(coordinates):
            if one >= other:
                self._rules.breach("ascending", f"the driver delivered {other} of {log!r} after {one}")
        if next_position <= last:
            self._rules.breach("next-position", f"{next_position} of {log!r} does not lie after the message {last}")
        self._rules.check_possible(first)
        self._rules.check_possible(last)

    def _check_lost(self, error: PositionLost) -> None:
        if error.log is None or error.log not in self._listener.held or error.low is None:
            self._rules.breach(
                "position-lost", f"PositionLost names {error.log!r} and low {error.low!r}, not a held log and its low"
            )
        self._rules.check_position("position-lost", error.log, error.low)

    @property
    def still_holds(self) -> Callable[[], bool] | None:
        return None if super().still_holds is None else self._still_holds

    def _still_holds(self) -> bool:
        calls = self._listener.calls_received
        ask = super().still_holds
        if ask is None or ask():
            if self._lost_at == calls:
                self._rules.breach("still-holds", "still_holds returned False, then True, without a listener call")
            return True
        self._lost_at = calls
        return False

    # the core's calls --------------------------------------------------------------------------------------

    def tend(self, timeout: float) -> None:
        with self._calls.call("tend"):
            self.inner.tend(timeout)

    def pause(self, logs: Sequence[Log]) -> None:
        with self._calls.call("pause"):
            self._check_held("pause", logs)
            self.inner.pause(logs)
            self._listener.paused |= set(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        with self._calls.call("resume"):
            self._check_held("resume", logs)
            self._listener.paused -= set(logs)
            self.inner.resume(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        with self._calls.call("seek"):
            self._check_held("seek", positions)
            for log in positions:
                self._listener.reading_at.pop(log, None)  # unknown if the seek fails
            self.inner.seek(positions, timeout)
            self._listener.move(positions)
            with self._counting:
                for log in positions:
                    self._unsettled.pop(log, None)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        with self._calls.call("seek"):
            super().follow(options, timeout)
            self._listener.follow(options)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        with self._calls.call("seek"):
            self._check_held("pass_over", positions)
            super().pass_over(positions, timeout)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        with self._calls.call("commit"):
            if self._group is None or self._shares:
                self._rules.breach("commit-with-group", "commit was called without a group, or in a shared mode")
            self._check_held("commit", positions)
            self.inner.commit(positions, timeout)

    def membership(self) -> Any:
        with self._calls.call("commit"):
            return super().membership()

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int | None:
        with self._calls.call("settle"):
            if not self._shares:
                self._rules.breach("settle-shared", "settle was called outside the modes shared and key_shared")
            named = {log: Counter([*each.acked, *(at for at, _ in each.returned)]) for log, each in settled.items()}
            with self._counting:
                for log, messages in named.items():
                    if not messages <= self._unsettled.setdefault(log, Counter()):
                        excess = list((messages - self._unsettled[log]).elements())
                        self._rules.breach("settle-once", f"settle names {excess} of {log!r}, which are not unsettled")
            late = super().settle(settled, timeout)
            with self._counting:
                for log, messages in named.items():
                    self._unsettled[log] -= messages
            return late

    def close(self, timeout: float) -> None:
        try:
            with self._calls.call("close"):
                self.inner.close(timeout)
        finally:
            self._rules.closed(self)

    def _check_held(self, name: str, logs: Sequence[Log] | Mapping[Log, object]) -> None:
        for log in logs:
            if log not in self._listener.held:
                self._rules.breach("held", f"{name} was called for {log!r}, which this consumer does not hold")
