"""A consumer's driver, watched: what the core asks of it, what it delivers, and what it tells the listener."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from mqplug._model.batch import Batch
from mqplug._model.log import Log
from mqplug._model.position import Position, PositionLost
from mqplug.debug._rules import Rules, RunningCalls
from mqplug.spi import ConsumerDriver, ConsumerOptions, GroupPosition, Listener, Numbers, Settlement
from mqplug.spi.proxies import ConsumerProxy, ListenerProxy

MAX_POLL_S: Final = 0.1 + 1e-9  # seconds that a poll may last


class WatchedListener(ListenerProxy):
    """The core's listener, which may hear of something in ``poll`` and ``tend`` only; knows what is held."""

    def __init__(self, inner: Listener, rules: Rules, options: ConsumerOptions) -> None:
        super().__init__(inner)
        self.calls = RunningCalls(rules)
        self.told = 0  # how often anything was told
        self.paused: set[Log] = set()
        self.stands: dict[Log, Numbers] = {}  # where reading goes on, as far as that is known
        self._group = options.group
        if options.group is None:
            self.held = set(options.logs)
            self.move(options.start if isinstance(options.start, Mapping) else {})
        else:
            self.held = set()

    def move(self, positions: Mapping[Log, Position]) -> None:
        """Reading goes on there."""
        self.stands |= {log: position.coordinates for log, position in positions.items()}

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        self._check()
        rules = self.calls.rules
        for log, stands in positions.items():
            if log in self.held:
                rules.breach("assigned-once", f"{log!r} is assigned, and is held already")
            rules.check_stand(log, stands)
        self.held |= set(positions)
        self.move({log: stands.position for log, stands in positions.items()})
        super().assigned(positions)

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        self._check()
        states = super().revoked(logs)
        self._let_go(logs)
        return states

    def lost(self, logs: Sequence[Log]) -> None:
        self._check()
        self._let_go(logs)
        super().lost(logs)

    def _let_go(self, logs: Sequence[Log]) -> None:
        self.held -= set(logs)
        self.paused -= set(logs)

    def _check(self) -> None:
        self.told += 1
        if not self.calls.runs_here("poll", "tend"):
            self.calls.rules.breach("listener", "the listener was called outside poll and tend")
        if self._group is None:
            self.calls.rules.breach("listener", "the listener was called for a consumer without a group")


class WatchedConsumer(ConsumerProxy):
    """A consumer between the core and its driver: both are watched."""

    def __init__(self, inner: ConsumerDriver, listener: WatchedListener, options: ConsumerOptions) -> None:
        super().__init__(inner)
        self._calls = listener.calls
        self._rules = listener.calls.rules
        self._listener = listener
        self._group = options.group
        self._shares = options.shares
        self._out: dict[Log, Counter[Numbers]] = {}  # how often each was handed out and not settled
        self._gone_since: int | None = None  # what the listener had been told when still_holds said no
        self._rules.opened(self)

    # what it delivers --------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        with self._calls.call("poll"):
            if most < 1 or not 0 <= timeout <= MAX_POLL_S:
                self._rules.breach("slices", f"poll({most}, {timeout:g}): at least 1 message, at most 0.1 s")
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
                self._out.setdefault(batch.log, Counter()).update(batch.coordinates)
        return batches

    def _check_batch(self, batch: Batch) -> None:
        log, behind, breach = batch.log, batch.next_position, self._rules.breach
        if log not in self._listener.held:
            breach("delivers-held", f"a batch of {log!r}, which this consumer does not hold")
        if log in self._listener.paused:
            breach("paused", f"a batch of {log!r}, which is paused")
        self._rules.check_position("next-position", log, behind)
        if len(batch):
            self._check_messages(log, list(batch.coordinates), behind.coordinates)
        if min(batch.attempts, default=1) < 1:
            breach("attempts", f"an attempt of {log!r} is {min(batch.attempts)}, and the first is 1")
        if not self._shares:
            if behind.coordinates < self._listener.stands.get(log, behind.coordinates):
                breach("next-position", f"{behind!r} lies before {self._listener.stands[log]}, which was passed")
            self._listener.move({log: behind})

    def _check_messages(self, log: Log, coordinates: list[Numbers], behind: Numbers) -> None:
        first, last = coordinates[0], coordinates[-1]
        stands = None if self._shares else self._listener.stands.get(log)
        if stands is not None and first < stands:
            self._rules.breach("after-seek", f"{first} of {log!r} comes where reading stands at {stands}")
        for one, other in pairwise(coordinates):
            if one >= other:
                self._rules.breach("ascending", f"{other} of {log!r} comes behind {one}")
        if behind <= last:
            self._rules.breach("next-position", f"{behind} of {log!r} does not lie behind the message {last}")
        self._rules.check_possible(first)
        self._rules.check_possible(last)

    def _check_lost(self, error: PositionLost) -> None:
        if error.log is None or error.log not in self._listener.held or error.low is None:
            self._rules.breach("position-lost", f"it names the log {error.log!r} and low {error.low!r}")
        self._rules.check_position("position-lost", error.log, error.low)

    @property
    def still_holds(self) -> Callable[[], bool] | None:
        return None if super().still_holds is None else self._still_holds

    def _still_holds(self) -> bool:
        told = self._listener.told
        ask = super().still_holds
        if ask is None or ask():
            if self._gone_since == told:
                self._rules.breach("still-holds", "still_holds said no, then yes, and the listener was told nothing")
            return True
        self._gone_since = told
        return False

    # what the core asks ------------------------------------------------------------------------------------

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
                self._listener.stands.pop(log, None)  # if it fails, nobody knows
            self.inner.seek(positions, timeout)
            self._listener.move(positions)
            for log in positions:
                self._out.pop(log, None)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        with self._calls.call("seek"):
            self._check_held("pass_over", positions)
            super().pass_over(positions, timeout)

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
        try:
            with self._calls.call("close"):
                self.inner.close(timeout)
        finally:
            self._rules.closed(self)

    def _check_held(self, name: str, logs: Sequence[Log] | Mapping[Log, object]) -> None:
        for log in logs:
            if log not in self._listener.held:
                self._rules.breach("held", f"{name} names {log!r}, which this consumer does not hold")
